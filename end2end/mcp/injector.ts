// A proxy that adds the token to every request: the conformance suite has no option for headers.
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export class Injector {
  private constructor(private readonly server: Server) {}

  static async before(target: string, token: string): Promise<Injector> {
    const { hostname, port } = new URL(target);
    const server = createServer((near, answer) => {
      // Host and Origin stay as they are, since whether the server refuses them is tested too.
      const headers = { ...near.headers, authorization: `Bearer ${token}` };
      const far = request({ hostname, port, method: near.method, path: near.url, headers, setHost: false }, (response) => {
        answer.writeHead(response.statusCode ?? 502, response.headers);
        answer.flushHeaders();
        response.pipe(answer);
        response.on("error", () => answer.destroy());
      });
      far.on("error", () => answer.destroy());
      // A client that goes away cancels its request (Streamable HTTP), so it must be seen to go.
      answer.on("close", () => far.destroy());
      near.pipe(far);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Injector(server);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
