//! The line between one process and the database, which a test can cut: the kinds of failure that a network has and a server
//! that is killed has not.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::AbortHandle,
};

/// What the line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Carries everything.
    Carries,
    /// Keeps every connection open and carries nothing, as if a cable were pulled. What was sent comes when it heals.
    Silent,
    /// Resets every connection, also each new one.
    Resets,
}

/// The state that all connections look at.
#[derive(Debug, Clone, Copy)]
struct State {
    mode: Mode,
    /// The port that new connections lead to.
    target: u16,
    /// Connections with a lower number carry nothing for ever, whatever the mode.
    stranded: usize,
}

/// Commits of PostgreSQL's protocol that pass, and the one whose answer is lost.
#[derive(Debug, Default)]
struct Commits {
    seen: Arc<AtomicUsize>,
    /// 0 for none.
    lost: AtomicUsize,
}

/// A TCP proxy on a port of its own; it ends with the test.
pub struct Proxy {
    pub port: u16,
    state: watch::Sender<State>,
    made: Arc<AtomicUsize>,
    commits: Arc<Commits>,
    task: AbortHandle,
}

impl Proxy {
    /// A line to this port of this machine.
    pub async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let state = watch::Sender::new(State { mode: Mode::Carries, target, stranded: 0 });
        let (made, commits) = (Arc::<AtomicUsize>::default(), Arc::<Commits>::default());
        let (numbers, counted, seen) = (made.clone(), commits.clone(), state.subscribe());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let connection =
                    Connection { number: numbers.fetch_add(1, SeqCst), state: seen.clone(), commits: counted.clone() };
                tokio::spawn(connection.carry(client));
            }
        });
        Self { port, state, made, commits, task: task.abort_handle() }
    }

    fn set(&self, mode: Mode) {
        self.state.send_modify(|state| state.mode = mode);
    }

    /// From now on nothing comes through, and nobody is told.
    pub fn goes_silent(&self) {
        self.set(Mode::Silent);
    }

    /// From now on every connection is broken off.
    pub fn resets(&self) {
        self.set(Mode::Resets);
    }

    /// Everything comes through again.
    pub fn heals(&self) {
        self.set(Mode::Carries);
    }

    /// New connections lead there.
    pub fn leads_to(&self, target: u16) {
        self.state.send_modify(|state| state.target = target);
    }

    /// The connections that there are never carry anything again, and nobody is told; new ones work.
    pub fn strands_connections(&self) {
        let made = self.made.load(SeqCst);
        self.state.send_modify(|state| (state.mode, state.stranded) = (Mode::Carries, made));
    }

    /// The answer to the commit with this number (from 1 on) is lost, and its connection with it.
    pub fn loses_answer_to_commit(&self, number: usize) {
        self.commits.lost.store(number, SeqCst);
    }

    /// How many commits have passed.
    pub fn counter(&self) -> Arc<AtomicUsize> {
        self.commits.seen.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection of a process.
struct Connection {
    number: usize,
    state: watch::Receiver<State>,
    commits: Arc<Commits>,
}

/// The connection is over.
struct Over;

impl Connection {
    async fn carry(self, client: TcpStream) {
        // On a line that is dead the client has its connection (the kernel answers), and hears nothing.
        if self.clear(&mut self.state.clone()).await.is_err() {
            let _ = client.set_zero_linger();
            return;
        }
        let target = self.state.borrow().target;
        let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
            let _ = client.set_zero_linger();
            return;
        };
        // Small messages go back and forth; waiting for more would only add time.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let loses = AtomicUsize::new(0);
        let ((mut client_in, mut client_out), (mut server_in, mut server_out)) = (client.into_split(), server.into_split());
        let over = tokio::select! {
            over = self.pump(&mut client_in, &mut server_out, |bytes| {
                if self.is_lost(bytes) {
                    loses.store(1, SeqCst);
                }
                Ok(())
            }) => over,
            over = self.pump(&mut server_in, &mut client_out, |_| if loses.load(SeqCst) == 1 { Err(Over) } else { Ok(()) }) => over,
        };
        if let End::Broken = over {
            // RST instead of FIN, on both sides.
            for half in [&client_out, &server_out] {
                let _ = half.as_ref().set_zero_linger();
            }
        }
    }

    /// Waits until the line carries something; fails when it resets instead.
    async fn clear(&self, state: &mut watch::Receiver<State>) -> Result<(), Over> {
        let is_clear = |state: &State| match state.mode {
            Mode::Resets => true,
            Mode::Carries => self.number >= state.stranded,
            Mode::Silent => false,
        };
        match state.wait_for(is_clear).await {
            Ok(state) if state.mode == Mode::Carries => Ok(()),
            _ => Err(Over),
        }
    }

    /// Carries bytes one way until the connection is over; `look` sees them first and may end it.
    async fn pump(&self, from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, look: impl Fn(&[u8]) -> Result<(), Over>) -> End {
        let mut state = self.state.clone();
        let mut bytes = vec![0; 64 * 1024];
        loop {
            if self.clear(&mut state).await.is_err() {
                return End::Broken;
            }
            let read = tokio::select! {
                read = from.read(&mut bytes) => read,
                changed = state.changed() => if changed.is_ok() { continue } else { return End::Broken },
            };
            // What has come in just now does not get through any more where the line has gone silent meanwhile; also an end.
            if self.clear(&mut state).await.is_err() {
                return End::Broken;
            }
            match read {
                Ok(0) => return End::Closed,
                Ok(n) if look(&bytes[..n]).is_ok() && to.write_all(&bytes[..n]).await.is_ok() => {}
                _ => return End::Broken,
            }
        }
    }

    /// Counts the commits in what a client says; whether the answer to one of them is to be lost.
    fn is_lost(&self, bytes: &[u8]) -> bool {
        // Query, a length of eleven, and the text (PostgreSQL's protocol 3.0).
        // The last statement of a simple query.
        const COMMIT: &[u8] = b"commit\0";
        let count = bytes.windows(COMMIT.len()).filter(|window| *window == COMMIT).count();
        (0..count).any(|_| self.commits.seen.fetch_add(1, SeqCst) + 1 == self.commits.lost.load(SeqCst))
    }
}

/// How a connection ends.
enum End {
    Closed,
    Broken,
}
