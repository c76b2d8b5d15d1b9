//! What the list of signed-in devices calls a browser. It only has to tell a person's own devices apart, so a few well-known
//! marks in the `User-Agent` are enough.

use http::{HeaderMap, header::USER_AGENT};

/// Checked in this order: Edge and Opera also say Chrome, and Chrome also says Safari.
const BROWSERS: [(&str, &str); 5] =
    [("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari")];

/// Checked in this order: Android also says Linux, and iPhones also say Mac OS X.
const SYSTEMS: [(&str, &str); 6] = [
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
];

/// A name such as "Firefox on Linux".
pub fn device_name(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let find = |marks: &[(&str, &'static str)]| marks.iter().find(|(mark, _)| agent.contains(mark)).map(|(_, name)| *name);
    match (find(&BROWSERS), find(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "Unknown device".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_told_apart() {
        let cases = [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1 Version/18.0 Safari/604.1",
                "Safari on iPhone",
            ),
            ("Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36", "Chrome on Android"),
            ("curl/8.9", "Unknown device"),
        ];
        for (agent, name) in cases {
            let headers = HeaderMap::from_iter([(USER_AGENT, agent.parse().unwrap())]);
            assert_eq!(device_name(&headers), name);
        }
        assert_eq!(device_name(&HeaderMap::new()), "Unknown device");
    }
}
