/** One kind of event that a webhook may subscribe to. */
export interface EventKind {
  readonly name: string;
  readonly group: EventGroup;
  readonly description: string;
  /** The platform's behaviour when it happens, for the documentation. */
  readonly emittedBy: string;
}

export const eventGroups = ['auth', 'users', 'database', 'table', 'storage', 'functions', 'payments'] as const;
export type EventGroup = (typeof eventGroups)[number];

const kind = (name: string, group: EventGroup, description: string, emittedBy: string): EventKind => ({
  name,
  group,
  description,
  emittedBy,
});

const rowWrite = 'a write to a table of schema public, whichever path made it: REST, GraphQL, SQL, a function';

/**
 * Every kind of event: the one place that knows which operation emits which. `GET …/integrations/events`, the check of
 * subscriptions and the table in `docs/webhooks.md` are made from it. `<table>`, `<provider>` and `<type>` stand for names.
 */
export const eventKinds: readonly EventKind[] = [
  kind('auth.signup', 'auth', 'A user of the project signed up.', 'sign-up of a project’s user'),
  kind('auth.login', 'auth', 'A user of the project signed in.', 'sign-in of a project’s user'),
  kind(
    'auth.password_reset',
    'auth',
    'A user of the project set a new password.',
    'password reset of a project’s user',
  ),
  kind('user.created', 'users', 'A user of the project was created.', 'sign-up, or the project’s user administration'),
  kind('user.updated', 'users', 'A user of the project was changed.', 'a change of a project’s user'),
  kind('user.deleted', 'users', 'A user of the project was deleted.', 'deletion of a project’s user'),
  kind('db.insert', 'database', 'A row was inserted into a table.', rowWrite),
  kind('db.update', 'database', 'A row was updated; `old` stands beside `data`.', rowWrite),
  kind('db.delete', 'database', 'A row was deleted.', rowWrite),
  kind('table.<table>.INSERT', 'table', 'A row was inserted into that table.', rowWrite),
  kind('table.<table>.UPDATE', 'table', 'A row of that table was updated; `old` stands beside `data`.', rowWrite),
  kind('table.<table>.DELETE', 'table', 'A row of that table was deleted.', rowWrite),
  kind(
    'table.<table>.TRUNCATE',
    'table',
    'That table was emptied by TRUNCATE: one event, whose `data` is null.',
    'TRUNCATE of a table of schema public',
  ),
  kind('storage.upload', 'storage', 'A file was uploaded.', 'an upload'),
  kind('storage.delete', 'storage', 'A file was deleted.', 'deletion of a file'),
  kind('functions.invoked', 'functions', 'A run of a function ended, however it ended.', 'the end of a run'),
  kind('functions.error', 'functions', 'A run of a function ended badly.', 'the end of a run, but for `success`'),
  kind(
    'payments.<provider>.<type>',
    'payments',
    'A payment provider reported something: `payments.stripe.invoice.paid`.',
    'a verified call of the provider to `/hooks/{project_id}/{provider}`',
  ),
];
