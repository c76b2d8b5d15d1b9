// A place where a peer stops until the test lets it go on, so that a test can act at an exact point without sleeping.

/** One stop: the peer arrives, the test sees it, acts, and opens. */
export class Gate {
  /** Resolves when the peer stands here. */
  readonly reached: Promise<void>;
  private readonly opened: Promise<void>;
  private arrive!: () => void;
  private release!: () => void;

  constructor() {
    this.reached = new Promise((resolve) => (this.arrive = resolve));
    this.opened = new Promise((resolve) => (this.release = resolve));
  }

  /** Lets the peer go on, whether it stands here already or not. */
  open(): void {
    this.release();
  }

  /** The peer's side: says that it is here and waits. */
  async pass(): Promise<void> {
    this.arrive();
    await this.opened;
  }
}
