// The server is killed in the middle of a job and started again.
import { ada, effect, expect, generate, headline, signIn, test } from "../fixtures.ts";

// The page may still be loading its script when the server goes.
test.use({ tolerated: /Failed to fetch/ });

test.describe("while the model answers", () => {
  test.use({ setup: { summarizer: "model", lease: 3 } });

  test("the job goes on after the restart", async ({ page, server, model }) => {
    const answer = model.hold();
    await signIn(page, ada);
    const job = await generate(page);
    await answer.reached;
    await server.kill("SIGKILL");
    await server.start();
    // Signed in still, without doing anything.
    await page.goto(job);
    await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
    expect(model.prompts).toHaveLength(2);
  });
});

test.describe("between the final dot and the reply", () => {
  test.use({ setup: { mail: "smtp", lease: 3 } });

  test("the message is unconfirmed and is not sent again", async ({ page, server, mail }) => {
    const reply = mail.hold("reply");
    await signIn(page, ada);
    const job = await generate(page);
    await reply.reached;
    await server.kill("SIGKILL");
    await server.start();
    await page.goto(job);
    await expect(headline(page)).toHaveText("Report saved; email outcome unconfirmed");
    await expect(effect(page, "E-mail to ada@example.org")).toContainText("unconfirmed");
    expect(mail.taken).toHaveLength(1);
  });
});

test.describe("at a shutdown", () => {
  test.use({ setup: { summarizer: "model" } });

  test("the job is handed back and goes on after the start", async ({ page, server, model }) => {
    const answer = model.hold();
    await signIn(page, ada);
    const job = await generate(page);
    await answer.reached;
    await server.kill("SIGTERM");
    await model.abortion();
    await server.start();
    await page.goto(job);
    await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  });
});
