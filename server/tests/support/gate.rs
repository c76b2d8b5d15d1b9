//! The other end of the program's fail points: the test learns where a process, or a server of its own, stands, and decides
//! when it goes on.

use std::{collections::HashMap, path::PathBuf};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
};

/// Where arrivals are announced; servers in the test's own process have one each.
#[derive(Debug, Clone)]
pub struct Door(UnboundedSender<(String, oneshot::Sender<()>)>);

impl Door {
    /// Stands here until the test lets it go on. `false` where the test went away instead, as after a kill.
    pub async fn reach(&self, name: String) -> bool {
        let (go, gone_on) = oneshot::channel();
        self.0.send((name, go)).is_err() || gone_on.await.is_ok()
    }
}

/// Something that stands at its point.
#[derive(Debug)]
pub struct Arrival {
    /// The point, with `#2` behind it the second time.
    pub name: String,
    go: oneshot::Sender<()>,
}

impl Arrival {
    /// Lets it go on.
    pub fn go(self) {
        // A process may have been told to stop meanwhile; then nobody stands here any more.
        let _ = self.go.send(());
    }

    /// Whether the program holds the database's write lock there, so that a Cancel has to wait behind it.
    pub fn in_transaction(&self) -> bool {
        self.name.starts_with("before commit")
    }

    /// Whether it belongs to a Cancel itself: the first one, or a late one, which only leaves a note.
    pub fn of_cancel(&self) -> bool {
        self.name.contains("cancel requested") || self.name.contains("commit of a note")
    }
}

/// Hears of every arrival.
pub struct Gate {
    pub socket: PathBuf,
    door: Door,
    arrivals: UnboundedReceiver<(String, oneshot::Sender<()>)>,
    seen: HashMap<String, usize>,
}

impl Gate {
    /// Listens on a Unix socket at this path.
    pub fn open(socket: PathBuf) -> Self {
        let listener = UnixListener::bind(&socket).expect("a socket");
        let (sender, arrivals) = unbounded_channel();
        let door = Door(sender);
        let announced = door.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let door = announced.clone();
                tokio::spawn(async move { attend(stream, &door).await });
            }
        });
        Self { socket, door, arrivals, seen: HashMap::new() }
    }

    /// A door for a server of the test's own.
    pub fn door(&self) -> Door {
        self.door.clone()
    }

    /// From now on holds whoever first comes to this point, and lets everybody else pass.
    pub fn hold_only(mut self, point: &'static str) -> oneshot::Receiver<Arrival> {
        let (standing, told) = oneshot::channel();
        let mut standing = Some(standing);
        tokio::spawn(async move {
            loop {
                let arrival = self.next().await;
                match standing.take_if(|_| arrival.name == point) {
                    Some(standing) => {
                        let _ = standing.send(arrival);
                    }
                    None => arrival.go(),
                }
            }
        });
        told
    }

    /// The next arrival.
    pub async fn next(&mut self) -> Arrival {
        let (mut name, go) = self.arrivals.recv().await.expect("the gate has a door of its own");
        let count = self.seen.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            name = format!("{name} #{count}");
        }
        Arrival { name, go }
    }
}

async fn attend(stream: UnixStream, door: &Door) {
    let mut stream = BufReader::new(stream);
    let mut name = String::new();
    if stream.read_line(&mut name).await.is_ok_and(|n| n > 0) && door.reach(name.trim_end().to_owned()).await {
        let _ = stream.get_mut().write_all(b"go\n").await;
    }
}
