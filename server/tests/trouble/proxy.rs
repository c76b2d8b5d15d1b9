//! A way to a server that can be cut: connections end, and new ones are not answered until it is mended.

use std::{io, net::SocketAddr};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// The way.
pub struct Proxy {
    pub port: u16,
    open: watch::Sender<bool>,
}

impl Proxy {
    /// Leads to this server.
    pub async fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let (open, is_open) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((here, _)) = listener.accept().await {
                let mut is_open = is_open.clone();
                tokio::spawn(async move {
                    if *is_open.borrow() {
                        tokio::select! {
                            _ = pass_on(here, server) => {}
                            _ = is_open.wait_for(|open| !open) => {}
                        }
                    }
                });
            }
        });
        Ok(Self { port, open })
    }

    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    pub fn mend(&self) {
        self.open.send_replace(true);
    }
}

async fn pass_on(mut here: TcpStream, server: SocketAddr) -> io::Result<()> {
    let mut there = TcpStream::connect(server).await?;
    copy_bidirectional(&mut here, &mut there).await.map(drop)
}
