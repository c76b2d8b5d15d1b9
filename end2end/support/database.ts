// The database of a test's server: a file in its data folder, or one of its own on the PostgreSQL server that
// RECOUNT_TEST_POSTGRES names (server/tests/with-postgres.sh). The same tests run on both.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";

const SERVER = process.env["RECOUNT_TEST_POSTGRES"];

/** Whether the tests have their databases there. */
export const onPostgres = SERVER !== undefined;

/** A database on the PostgreSQL server. */
export class Database {
  private constructor(readonly name: string) {}

  /** A copy of another one that nobody uses, or of an empty one; null where the tests use files. */
  static copyOf(original: Database | null): Database | null {
    if (!SERVER) return null;
    const name = `e_${randomBytes(8).toString("hex")}`;
    psql(`create database ${name} template ${original?.name ?? "template0"}`);
    return new Database(name);
  }

  drop(): void {
    psql(`drop database ${this.name} with (force)`);
  }

  /** The line of recount.toml that leads to it. */
  get setting(): string {
    const url = new URL(SERVER ?? "");
    url.pathname = this.name;
    return `database = "${url}"`;
  }
}

function psql(statement: string): void {
  execFileSync("psql", ["--quiet", "--dbname", SERVER ?? "", "--command", statement]);
}
