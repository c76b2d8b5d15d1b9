// An SMTP server (RFC 5321) that does what a test tells it to and keeps what it took.
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { Gate } from "./gate.ts";

/** Where a session can be made to stand still. */
export type Point =
  /** Connected, before the 220. */
  | "greeting"
  /** Before the reply to RCPT TO: nothing of the message is on the way. */
  | "recipient"
  /** The message and its final dot are here and taken; before the 250. */
  | "reply";

/** A message that the server has taken responsibility for. */
export interface Taken {
  recipient: string;
  text: string;
}

export class MailServer {
  readonly taken: Taken[] = [];
  private readonly gates = new Map<string, Gate>();
  private readonly lost = new Set<number>();
  private readonly unknown = new Set<string>();
  private readonly passed = new Map<Point, number>();
  private readonly sockets = new Set<Socket>();

  private constructor(private readonly server: Server) {
    server.on("connection", (socket) => {
      this.sockets.add(socket);
      socket.on("close", () => this.sockets.delete(socket));
      // A client that breaks off is what the tests are about.
      socket.on("error", () => {});
      void this.talk(socket);
    });
  }

  static async start(): Promise<MailServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new MailServer(server);
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** Stops the session that comes to `point` for the `turn`th time (from 1). */
  hold(point: Point, turn = 1): Gate {
    const gate = new Gate();
    this.gates.set(`${point} ${turn}`, gate);
    return gate;
  }

  /** Takes the `turn`th message (from 1) and breaks the connection off instead of answering. */
  loseReply(turn = 1): void {
    this.lost.add(turn);
  }

  /** Knows nobody with this address. */
  refuse(recipient: string): void {
    this.unknown.add(recipient);
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async pass(point: Point): Promise<void> {
    const turn = (this.passed.get(point) ?? 0) + 1;
    this.passed.set(point, turn);
    await this.gates.get(`${point} ${turn}`)?.pass();
  }

  private async talk(socket: Socket): Promise<void> {
    const say = (line: string) => socket.writable && socket.write(`${line}\r\n`);
    let recipient = "";
    let message: string[] | null = null;
    await this.pass("greeting");
    say("220 mail.example.org ESMTP");
    let rest = "";
    for await (const chunk of socket.setEncoding("utf8")) {
      const lines = (rest + chunk).split("\r\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (message) {
          if (line !== ".") {
            message.push(line.startsWith(".") ? line.slice(1) : line);
            continue;
          }
          this.taken.push({ recipient, text: message.join("\r\n") });
          message = null;
          if (this.lost.has(this.taken.length)) {
            socket.destroy();
            return;
          }
          await this.pass("reply");
          say(`250 2.0.0 Ok: queued as ${this.taken.length}`);
          continue;
        }
        const verb = line.slice(0, 4).toUpperCase();
        if (verb === "EHLO") say("250-mail.example.org\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 SIZE 10000000");
        else if (verb === "MAIL") say("250 2.1.0 Ok");
        else if (verb === "RCPT") {
          recipient = /<(.*?)>/.exec(line)?.[1] ?? "";
          await this.pass("recipient");
          say(this.unknown.has(recipient) ? "550 5.1.1 No such user here" : "250 2.1.5 Ok");
        } else if (verb === "DATA") {
          message = [];
          say("354 End data with <CR><LF>.<CR><LF>");
        } else if (verb === "QUIT") {
          say("221 2.0.0 Bye");
          socket.end();
        } else say("502 5.5.2 Not understood");
      }
    }
  }
}
