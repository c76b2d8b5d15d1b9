// Puts a restored copy in the place of a running server's database.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { onPostgres } from "./database.ts";
import { command, type Recount } from "./recount.ts";

/**
 * Backs the running server up, and puts the backup in the place of its database. PostgreSQL has programs of its own for that;
 * what is left to Recount is to set aside what is open.
 */
export async function restore(server: Recount): Promise<void> {
  if (onPostgres) {
    await server.kill("SIGTERM");
    command(["set-aside", "--data", server.data]);
    await server.start();
    return;
  }
  const file = join(server.data, "..", "backup.sqlite3");
  command(["backup", file, "--data", server.data]);
  await server.kill("SIGKILL");
  for (const ending of ["", "-wal", "-shm"]) rmSync(join(server.data, `recount.sqlite3${ending}`), { force: true });
  command(["restore", file, "--data", server.data]);
  await server.start();
}
