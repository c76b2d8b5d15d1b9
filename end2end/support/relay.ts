// A wire between the browser and the server that a test can cut or freeze.
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

export class Relay {
  private readonly sockets = new Set<Socket>();
  private frozen = false;

  private constructor(
    private readonly server: Server,
    target: number,
  ) {
    server.on("connection", (near) => {
      const far = connect(target, "127.0.0.1");
      for (const socket of [near, far]) {
        this.sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => {
          this.sockets.delete(socket);
          near.destroy();
          far.destroy();
        });
      }
      near.on("data", (bytes) => this.frozen || far.write(bytes));
      far.on("data", (bytes) => this.frozen || near.write(bytes));
    });
  }

  static async to(target: number): Promise<Relay> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Relay(server, target);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Breaks every connection; new ones are let through. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  /** From now on nothing gets through and nobody is told, as when a cable is pulled. */
  freeze(): void {
    this.frozen = true;
  }

  /** Ends the frozen connections and lets new ones through. */
  thaw(): void {
    this.frozen = false;
    this.cut();
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
