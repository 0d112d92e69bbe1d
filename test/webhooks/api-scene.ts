import { readyProject } from '#test/cron/ready-project.ts';
import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import type { TestPlatform } from '#test/support/platform.ts';

/** A project without a database, for what is kept of webhooks and not what becomes of them. */
export interface WebhookScene {
  readonly owner: TestUser;
  readonly project: TestProject;
  /** A call by the owner below `/projects/{id}/integrations`. */
  readonly ask: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
  /** A new webhook's id. */
  readonly made: (fields?: Readonly<Record<string, unknown>>) => Promise<string>;
}

export const receiverUrl = 'http://127.0.0.1:9/hook';

/** The id of an existing project. */
export const sceneIn = (platform: TestPlatform, owner: TestUser, project: TestProject): WebhookScene => {
  const ask: WebhookScene['ask'] = (method, path, body, headers = {}) =>
    platform.client.call(method, `/projects/${project.id}/integrations${path}`, {
      token: owner.token,
      headers,
      ...(body !== undefined && { body }),
    });
  return {
    owner,
    project,
    ask,
    made: async (fields = {}) => {
      const answer = await ask('POST', '/webhooks', { url: receiverUrl, events: ['*'], ...fields });
      if (answer.status !== 201) throw new Error(answer.text);
      return String(answer.body.id);
    },
  };
};

/** @param user left out: a new one */
export const webhookScene = async (platform: TestPlatform, user?: TestUser): Promise<WebhookScene> => {
  const owner = user ?? (await platform.client.signUp());
  return sceneIn(platform, owner, await readyProject(platform, owner, 'free'));
};

/** How a delivery is to stand; what is left out is as it is after a success. */
export interface GivenDelivery {
  readonly status?: string;
  readonly event?: string;
  readonly attempt?: number;
  /** JSON text of the event; null: the event is gone. */
  readonly data?: string | null;
  /** SQL, such as `now() - interval '2 hours'`. */
  readonly at?: string;
  readonly jobId?: string | null;
  readonly responseBody?: string;
}

/** Writes a delivery of that webhook, and its event. */
export const insertDelivery = async (
  { db }: TestPlatform,
  webhookId: string,
  { data = '{"n":1}', at = 'now()', ...given }: GivenDelivery = {},
): Promise<{ id: string; eventId: string }> => {
  const event = given.event ?? 'auth.login';
  const eventId = crypto.randomUUID();
  if (data !== null) {
    await db.query(
      `insert into outbox_events (id, project_id, event, data, fanned_at, created_at)
       select $2, project_id, $3, $4, now(), ${at} from webhooks where id = $1`,
      [webhookId, eventId, event.startsWith('db.') ? 'table.users.INSERT' : event, data],
    );
  }
  const [row] = await db.query<{ id: string }>(
    `insert into webhook_deliveries (id, webhook_id, project_id, event_id, event, status, attempt, job_id, created_at,
       status_code, response_time_ms, request_headers, response_body, finished_at)
     select overlay(uuid_v7()::text placing
         (select overlay(lpad(to_hex((extract(epoch from ${at}) * 1000)::bigint), 12, '0') placing '-' from 9 for 0))
         from 1 for 13)::uuid,
       id, project_id, $2, $3, $4, $5, $6, ${at}, 200, 12, '{"webhook-id":"x"}', $7, now()
     from webhooks where id = $1 returning id`,
    [
      webhookId,
      eventId,
      event,
      given.status ?? 'success',
      given.attempt ?? 1,
      given.jobId ?? null,
      given.responseBody ?? 'thanks',
    ],
  );
  if (row === undefined) throw new Error('there is no such webhook');
  return { id: row.id, eventId };
};
