use super::*;

fn missing(source: &str, statement: &str) -> Vec<String> {
    let document = SourceText { number: 1, name: "notes.md".to_owned(), date: "2026-06-10".to_owned(), text: source.to_owned() };
    KnownFigures::of(&[document]).unsupported(statement)
}

#[test]
fn spellings_of_one_number_match() {
    for (source, statement) in [
        ("It cost 1,234.5 dollars.", "Kosten von 1.234,5 Dollar"),
        ("It cost 1 234 567 euros.", "1,234,567 euros"),
        ("Es waren 12'000 Stück.", "12000 pieces"),
        ("About 42% agreed.", "42 percent agreed"),
        ("Gut 42 Prozent.", "42 %"),
        ("A rise of 0.50 points.", "0,5 points"),
        ("Version 0.30.1 is out at 14:30.", "0.30.1 came at 14:30"),
        ("There were 1.234 people.", "1,234 people"),
        ("90% of it", "90 of a hundred"),
        ("the 3rd meeting", "3 meetings"),
    ] {
        assert_eq!(missing(source, statement), Vec::<String>::new(), "{source} / {statement}");
    }
}

#[test]
fn spellings_of_one_day_match() {
    for (source, statement) in [
        ("On 2026-06-11 they met.", "They met on 11 June 2026."),
        ("Am 11. Juni 2026 war es.", "on June 11, 2026"),
        ("le 11 juin 2026", "11.06.2026"),
        ("el 11 de junio de 2026", "in June 2026"),
        ("on 11/06/2026", "June 11th, 2026"),
        ("on June 11, 2026", "on 11 June"),
        ("nothing", "The meeting of 10 June 2026, that is in 2026"),
    ] {
        assert_eq!(missing(source, statement), Vec::<String>::new(), "{source} / {statement}");
    }
}

#[test]
fn what_stands_nowhere_is_named_as_written() {
    assert_eq!(
        missing("It cost 140,000 dollars; 42 people came.", "It cost 150,000 dollars and 42 % came."),
        ["150,000", "42 %"]
    );
    assert_eq!(missing("On June 11, 2026.", "On June 12, 2026 and in July 2026."), ["June 12, 2026", "July 2026"]);
    assert_eq!(missing("", "77 and 77 again"), ["77"]);
    assert_eq!(missing("Version 0.30.1", "Version 0.30.2"), ["0.30.2"]);
}

#[test]
fn may_and_march_are_also_words() {
    assert_eq!(missing("", "They may march on."), Vec::<String>::new());
    assert_eq!(missing("5 people", "In May 5 people may come"), ["May 5"]);
}

#[test]
fn odd_input_never_panics() {
    for text in [
        "",
        "1.",
        "1,",
        "%",
        "1 %",
        "99999999999999999999.1",
        "1-",
        "2026-",
        "0000",
        "é1é",
        "1\u{A0}",
        "31 de",
        "May",
        "1st",
        "1s",
    ] {
        let _ = missing(text, text);
    }
}
