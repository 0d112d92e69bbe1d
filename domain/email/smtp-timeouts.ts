/** How long the parts of sending a mail may take, in ms. */
export interface SmtpTimeouts {
  /** From the name to the greeting. */
  readonly connectMs: number;
  /** Without a byte from the server, up to the final dot. */
  readonly silenceMs: number;
  /** From the request to the final dot, waiting for a free connection included. */
  readonly deliverMs: number;
  /** A mail whose answer takes longer than this gives its connection's place to the next mail. */
  readonly slowMs: number;
  /** From the final dot to the server's answer: RFC 5321 (4.5.3.2.6) asks for 10 minutes. */
  readonly answerMs: number;
  /** A connection without a mail is closed after this. */
  readonly idleMs: number;
}

export const usualTimeouts: SmtpTimeouts = {
  connectMs: 10_000,
  silenceMs: 30_000,
  deliverMs: 60_000,
  slowMs: 3000,
  answerMs: 600_000,
  idleMs: 30_000,
};
