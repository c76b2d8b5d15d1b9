// The sample documents of the tests: all of May 2026 but one.

export type Documents = Record<string, Record<string, string>>;

/** Folders by their name in the form. */
export const SAMPLES: Documents = {
  Minutes: {
    "2026-05-06-board.md": `# Board meeting

The board approved the new workshop in Leipzig. The budget for the workshop is 48,000 euros.
Petra Lang leads the project and reports every second week.

The lease of the old workshop ends in August. The movers need six weeks of notice.
`,
    "2026-05-20-team.txt": `Team meeting

The team finished the catalogue and sent it to the printer. Printing costs 2,150 euros and takes nine days.
Two apprentices start in September. Karim prepares their training plan until the end of June.
`,
    "2026-04-15-board.md": "# Board meeting\n\nThe board postponed the decision about the workshop to May.\n",
  },
  Letters: {
    "2026-05-11-supplier.eml": `From: Sales <sales@supplier.example>
To: Orders <orders@recount.example>
Subject: New prices from July
Date: Mon, 11 May 2026 09:30:00 +0200
Message-ID: <prices-7@supplier.example>
Content-Type: text/plain; charset=utf-8

Dear customer,

the price of oak boards rises by 4 percent from 1 July. Orders until 20 June are delivered at the old price.
`,
  },
};
