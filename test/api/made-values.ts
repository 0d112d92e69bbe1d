import type { ControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { Role } from '#domain/teams/store.ts';
import type { Answer, Client, TestUser } from '#test/support/client.ts';
import { type TestPlatform, opsToken } from '#test/support/platform.ts';
import { askForReset } from '#test/support/reset.ts';

/** @throws {Error} with the answer when it has another status */
export const mustBe = (status: number, answer: Answer): Answer => {
  if (answer.status !== status) throw new Error(`answered ${answer.status}: ${answer.text}`);
  return answer;
};

/** Makes somebody a member by an invite. */
export const inviteAs = async (
  { call }: Client,
  of: { readonly owner: TestUser; readonly orgId: string; readonly user: TestUser; readonly role: Role },
): Promise<void> => {
  const { owner, orgId, user, role } = of;
  const headers = { 'x-org-id': orgId };
  const invite = await call('POST', '/team/invite', { token: owner.token, headers, body: { email: user.email, role } });
  const token = /plinth_invite_[\w-]+/.exec(String(mustBe(201, invite).body.invite_link))?.[0];
  mustBe(200, await call('POST', `/team/invite/${token}/accept`, { token: user.token }));
};

type Ask = (method: string, path: string, body?: unknown) => Promise<Answer>;

export const scheduleFor = async (ask: Ask, projectId: string): Promise<string> => {
  const body = { name: 'to lose', schedule: '@yearly', target: { type: 'sql', sql: 'select 1' } };
  const made = await ask('POST', `/projects/${projectId}/cron`, body);
  if (made.status !== 201) throw new Error(made.text);
  return String(made.body.id);
};

/** A webhook that may be lost, where nobody listens. */
export const webhookFor = async (ask: Ask, projectId: string): Promise<string> => {
  const body = { url: 'http://127.0.0.1:9/', events: ['auth.login'] };
  const made = await ask('POST', `/projects/${projectId}/integrations/webhooks`, body);
  if (made.status !== 201) throw new Error(made.text);
  return String(made.body.id);
};

/** A delivery that has ended, of the webhook that the path names before it. */
export const deliveryFor = async (db: ControlDb, path: string): Promise<string> => {
  const [, webhookId] = /\/webhooks\/([^/]+)/.exec(path) ?? [];
  const [row] = await db.query<{ id: string }>(
    `insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, finished_at)
     select id, project_id, gen_random_uuid(), 'auth.login', 'success', now() from webhooks where id = $1 returning id`,
    [webhookId],
  );
  if (row === undefined) throw new Error('there is no such webhook');
  return row.id;
};

/** A mail of the project that the server refused. */
export const emailFor = async (db: ControlDb, projectId: string): Promise<string> => {
  const id = newId();
  await db.query(
    `insert into emails (id, project_id, template, recipient, status, job_id)
     values ($1, $2, 'signup', 'nobody@example.com', 'bounced', gen_random_uuid())`,
    [id, projectId],
  );
  return id;
};

/** A call of a model that has ended. */
export const aiCallFor = async (db: ControlDb, projectId: string): Promise<string> => {
  const id = newId();
  await db.query(
    `insert into ai_calls (id, project_id, kind, provider, model, status, request_id, keeper, started_at)
     values ($1, $2, 'chat', 'openai', 'gpt-4o', 'success', 'r', gen_random_uuid(), now())`,
    [id, projectId],
  );
  return id;
};

/** A mail that the platform wrote to that address. */
export const mailFor = async (platform: Pick<TestPlatform, 'client' | 'db'>, email: string): Promise<string> => {
  await askForReset(platform, email);
  const { body } = await platform.client.call('GET', '/ops/api/mail?limit=1', { token: opsToken });
  return String(body.mails[0].id);
};

/** A provider of mail, which is asked for at a server that is not there. */
export const providerFor = async (ask: Ask, projectId: string): Promise<string> => {
  const config = { api_key: 're_to_lose', from_email: 'a@mail.example', base_url: 'http://127.0.0.1:9' };
  const made = await ask('PUT', `/projects/${projectId}/integrations/providers/resend`, { config });
  if (made.status !== 200) throw new Error(made.text);
  return 'resend';
};
