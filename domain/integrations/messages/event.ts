/** An event as chats are told of it. */
export interface ChatEvent {
  /** As it happened: `table.users.INSERT`, `functions.error`, `payments.stripe.invoice.paid`, `test.ping`. */
  readonly event: string;
  /** The project's name. */
  readonly project: string;
  readonly timestamp: Date;
  /** JSON text; of writes to tables `{"row":…,"old":…}`, as it waits in the outbox. Null: too large to be shown. */
  readonly data: string | null;
}

/** The body that is sent to the address of a chat. */
export interface ChatMessage {
  readonly body: string;
  readonly contentType: string;
}
