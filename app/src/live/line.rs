//! A stream of the server's events, opened again whenever it breaks.
//!
//! Nothing in here runs while the server renders: effects and handlers exist in the browser only.

use leptos::{leptos_dom::helpers::TimeoutHandle, prelude::*};
use send_wrapper::SendWrapper;
use std::{rc::Rc, time::Duration};
use wasm_bindgen::{JsCast, closure::Closure};
use web_sys::{Event, EventSource, MessageEvent};

/// A silence longer than this means that the connection is lost; the server's heartbeat comes every few seconds.
const SILENCE: Duration = Duration::from_secs(12);
/// The longest wait before the next attempt to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What the stream tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// The connection stands. Anything may have happened while it did not.
    Opened,
    /// The data of an event.
    Event(String),
}

/// The stream. Its signals belong to whoever made it and end with that, hence the many `try_`.
#[derive(Clone, Copy)]
pub struct Line {
    /// The name of its events.
    event: &'static str,
    pub lost: RwSignal<bool>,
    link: StoredValue<Link>,
}

/// The connection that stands, or the wait for the next one.
///
/// On the server it stays empty: what belongs to one thread of the browser must not be dropped by another thread there.
#[derive(Default)]
struct Link {
    /// Where it leads and who is told, while it is wanted.
    wanted: Option<SendWrapper<Wanted>>,
    stream: Option<SendWrapper<Stream>>,
    silence: Option<TimeoutHandle>,
    pause: Option<TimeoutHandle>,
    /// Attempts without success since the last connection.
    failures: u32,
}

#[derive(Clone)]
struct Wanted {
    path: String,
    tell: Rc<dyn Fn(Told)>,
}

/// An event source with the handlers that it calls.
struct Stream {
    source: EventSource,
    _handlers: [Closure<dyn FnMut(Event)>; 4],
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.source.set_onopen(None);
        self.source.set_onerror(None);
        self.source.close();
    }
}

impl Link {
    fn cut(&mut self) {
        self.stream = None;
        for timer in [self.silence.take(), self.pause.take()].into_iter().flatten() {
            timer.clear();
        }
    }
}

impl Line {
    /// A line that is not open yet, for events with this name.
    pub fn new(event: &'static str) -> Self {
        Self { event, lost: RwSignal::new(false), link: StoredValue::new(Link::default()) }
    }

    /// Whether nothing has been heard from the server for too long. Closing tells this too, when whoever made the line is already gone.
    pub fn is_lost(self) -> bool {
        self.lost.try_get() == Some(true)
    }

    /// Opens it, and again whenever it breaks, until it is closed.
    pub fn open(self, path: String, tell: impl Fn(Told) + 'static) {
        let wanted = SendWrapper::new(Wanted { path, tell: Rc::new(tell) });
        let _ = self.link.try_update_value(|link| link.wanted = Some(wanted));
        self.connect();
    }

    /// Closes it for good.
    pub fn close(self) {
        let _ = self.link.try_update_value(|link| {
            link.wanted = None;
            link.cut();
        });
        let _ = self.lost.try_set(false);
    }

    /// The person is looking again: a page that slept may hold a dead connection.
    pub fn wake(self) {
        if self.lost.try_get_untracked() == Some(true) {
            self.connect();
        }
    }

    /// Calls `woken` whenever the person comes back to the page, for as long as the calling part of it stands.
    pub fn on_waking(woken: impl Fn() + 'static) {
        let woken = Rc::new(woken);
        let awake = ["focus", "online", "visibilitychange"].map(|event| {
            let woken = woken.clone();
            window_event_listener_untyped(event, move |_| woken())
        });
        on_cleanup(move || {
            for listener in awake {
                listener.remove();
            }
        });
    }

    /// Replaces the connection by a new one.
    fn connect(self) {
        let Some(wanted) = self.link.try_with_value(|link| link.wanted.as_deref().cloned()).flatten() else { return };
        let _ = self.link.try_update_value(|link| {
            link.cut();
            link.stream = self.stream(wanted).map(SendWrapper::new);
        });
        self.heard();
    }

    /// A sign of life: the next one is due within [`SILENCE`].
    fn heard(self) {
        let next = set_timeout_with_handle(move || self.lose(), SILENCE).ok();
        let _ = self.link.try_update_value(|link| {
            if let Some(timer) = std::mem::replace(&mut link.silence, next) {
                timer.clear();
            }
        });
    }

    /// The connection is gone, or what is shown cannot be trusted any more; the next attempt comes after 1 s, 2 s, 4 s …
    /// [`LONGEST_PAUSE`] and begins by reading everything again.
    pub fn lose(self) {
        if self.link.try_with_value(|link| link.wanted.is_some()) != Some(true) {
            return;
        }
        let _ = self.lost.try_set(true);
        let _ = self.link.try_update_value(|link| {
            link.cut();
            let pause = Duration::from_secs(1 << link.failures.min(4)).min(LONGEST_PAUSE);
            link.failures += 1;
            link.pause = set_timeout_with_handle(move || self.connect(), pause).ok();
        });
    }

    /// Opens the event source; `None` where the browser has none to offer.
    fn stream(self, Wanted { path, tell }: Wanted) -> Option<Stream> {
        let source = EventSource::new(&path).ok()?;
        let told = tell.clone();
        let opened = Closure::<dyn FnMut(Event)>::new(move |_| {
            let _ = self.link.try_update_value(|link| link.failures = 0);
            let _ = self.lost.try_set(false);
            self.heard();
            told(Told::Opened);
        });
        let failed = Closure::<dyn FnMut(Event)>::new(move |_| self.lose());
        let told = Closure::<dyn FnMut(Event)>::new(move |event: Event| {
            self.heard();
            if let Some(data) = event.dyn_ref::<MessageEvent>().and_then(|message| message.data().as_string()) {
                tell(Told::Event(data));
            }
        });
        let alive = Closure::<dyn FnMut(Event)>::new(move |_| self.heard());
        source.set_onopen(Some(opened.as_ref().unchecked_ref()));
        source.set_onerror(Some(failed.as_ref().unchecked_ref()));
        source.add_event_listener_with_callback(self.event, told.as_ref().unchecked_ref()).ok()?;
        source.add_event_listener_with_callback("alive", alive.as_ref().unchecked_ref()).ok()?;
        Some(Stream { source, _handlers: [opened, failed, told, alive] })
    }
}
