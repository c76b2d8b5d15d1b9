// Cancel in each step, at exact points: the page's sentence, and what the outside has seen.
import {
  ada,
  cancelButton,
  consequence,
  effect,
  expect,
  generate,
  headline,
  outbox,
  pressCancel,
  signIn,
  step,
  test,
} from "../fixtures.ts";

const THREE = ["ada@example.org", "bea@example.org", "cem@example.org"];
const NOTHING = "Cancelled. Nothing was saved or sent";

test.describe("while collecting", () => {
  test.use({ setup: { archive: true } });

  test("a cancel leaves nothing behind", async ({ page, server }) => {
    await signIn(page, ada);
    await generate(page, { sources: ["Archive"] });
    await expect(headline(page)).toHaveText("Collecting documents");
    await expect(page.getByRole("progressbar", { name: "Collect" })).toBeVisible();
    await expect(consequence(page)).toHaveText("If you cancel now, nothing will be saved or sent.");
    await pressCancel(page);
    await expect(headline(page)).toHaveText(NOTHING);
    await expect(step(page, "Collect")).toHaveClass("stopped");
    for (const name of ["Summarize", "Save", "E-mail"]) await expect(step(page, name)).toHaveClass("skipped");
    await expect(page.getByText(/^Cancel was pressed at .* by you\.$/)).toBeVisible();
    await expect(page.getByRole("link", { name: "Read the report" })).toHaveCount(0);
    expect(outbox(server)).toEqual([]);
  });
});

test.describe("while the model streams", () => {
  test.use({ setup: { summarizer: "model" } });

  test("a cancel closes the stream", async ({ page, server, model }) => {
    const answer = model.hold();
    await signIn(page, ada);
    await generate(page);
    await answer.reached;
    await expect(headline(page)).toHaveText("Summarizing");
    await expect(consequence(page)).toHaveText("If you cancel now, nothing will be saved or sent.");
    await pressCancel(page);
    await model.abortion();
    await expect(headline(page)).toHaveText(NOTHING);
    await expect(effect(page, "Model call 1 of 1 to scripted")).toContainText("broken off");
    expect(model.prompts).toHaveLength(1);
    expect(outbox(server)).toEqual([]);
  });
});

test.describe("while e-mailing", () => {
  test.use({ setup: { mail: "smtp" } });

  test("before the server has greeted, no message goes out", async ({ page, mail }) => {
    const greeting = mail.hold("greeting");
    await signIn(page, ada);
    await generate(page);
    await greeting.reached;
    await expect(headline(page)).toHaveText("E-mailing the link (0 of 1)");
    await pressCancel(page);
    await expect(headline(page)).toHaveText("Cancelled. Report saved; email not sent");
    greeting.open();
    await expect(page.getByRole("link", { name: "Read the report" })).toBeVisible();
    expect(mail.taken).toEqual([]);
  });

  test("before the final dot, the only message is not sent", async ({ page, mail }) => {
    const recipient = mail.hold("recipient");
    await signIn(page, ada);
    await generate(page);
    await recipient.reached;
    await expect(headline(page)).toHaveText("E-mailing the link (0 of 1)");
    await expect(consequence(page)).toHaveText("If you cancel now, the report stays saved; no email goes out.");
    await pressCancel(page);
    await expect(headline(page)).toHaveText("Cancelled. Report saved; email not sent");
    await expect(effect(page, "E-mail to ada@example.org")).toContainText("broken off before the message was handed over");
    recipient.open();
    expect(mail.taken).toEqual([]);
  });

  test("before the second of three final dots, one is accepted and two are not sent", async ({ page, mail }) => {
    const second = mail.hold("recipient", 2);
    await signIn(page, ada);
    await generate(page, { recipients: THREE });
    await second.reached;
    await expect(headline(page)).toHaveText("E-mailing the link (1 of 3)");
    await expect(consequence(page)).toHaveText(
      "If you cancel now, 1 of 3 messages is already with the mail server; the others will not be sent.",
    );
    await pressCancel(page);
    await expect(headline(page)).toHaveText("Cancelled. Report saved; email accepted for 1 of 3");
    await expect(step(page, "E-mail")).toContainText("1 accepted, 2 not sent");
    await expect(effect(page, "E-mail to ada@example.org")).toContainText("250 2.0.0 Ok: queued as 1");
    await expect(effect(page, "E-mail to bea@example.org")).toContainText("broken off");
    await expect(effect(page, "E-mail to cem@example.org")).toContainText("not started");
    second.open();
    expect(mail.taken.map((message) => message.recipient)).toEqual(["ada@example.org"]);
  });

  test("between the only final dot and its reply, it comes too late", async ({ page, mail }) => {
    const reply = mail.hold("reply");
    await signIn(page, ada);
    await generate(page);
    await reply.reached;
    await expect(consequence(page)).toHaveText(
      "The report is saved and every message is already with the mail server; a cancel can stop nothing more.",
    );
    await pressCancel(page);
    await expect(headline(page)).toHaveText("Stopping…");
    await expect(page.getByText("which has not answered yet; waiting for its answer.", { exact: false })).toBeVisible();
    reply.open();
    await expect(headline(page)).toHaveText("The cancel came too late. Report saved; email accepted by the mail service");
    expect(mail.taken).toHaveLength(1);
  });

  test("between the first of three final dots and its reply, that one is accepted and two are not sent", async ({
    page,
    mail,
  }) => {
    const reply = mail.hold("reply");
    await signIn(page, ada);
    await generate(page, { recipients: THREE });
    await reply.reached;
    await expect(consequence(page)).toHaveText(
      "If you cancel now, 1 of 3 messages is already with the mail server; the others will not be sent.",
    );
    await pressCancel(page);
    await expect(headline(page)).toHaveText("Stopping…");
    await expect(page.getByText("The other 2 will not be sent.", { exact: false })).toBeVisible();
    reply.open();
    await expect(headline(page)).toHaveText("Cancelled. Report saved; email accepted for 1 of 3");
    expect(mail.taken.map((message) => message.recipient)).toEqual(["ada@example.org"]);
  });
});

test("a job that has ended offers no cancel", async ({ page }) => {
  await signIn(page, ada);
  await generate(page);
  await expect(headline(page)).toHaveText("Report saved; written to the outbox folder, no e-mail was sent");
  await expect(cancelButton(page)).toHaveCount(0);
  await page.goto("/jobs");
  await expect(page.getByRole("button", { name: "Cancel May 2026" })).toHaveCount(0);
});

test.describe("from the list", () => {
  test.use({ setup: { summarizer: "model" } });

  test("a job can be cancelled", async ({ page, model }) => {
    const answer = model.hold();
    await signIn(page, ada);
    await generate(page);
    await answer.reached;
    await page.goto("/jobs");
    await page.getByRole("button", { name: "Cancel May 2026" }).click();
    await expect(headline(page)).toHaveText(NOTHING);
    await page.goto("/jobs?state=cancelled");
    await expect(page.getByRole("row", { name: "May 2026" })).toContainText(NOTHING);
  });
});
