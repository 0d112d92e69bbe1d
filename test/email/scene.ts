import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import type { TestPlatform } from '#test/support/platform.ts';

/** A project whose mail goes to a server of the test's. */
export interface MailScene {
  readonly user: TestUser;
  readonly project: TestProject;
  readonly call: (
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Answer>;
  readonly sendTest: (to?: string, headers?: Readonly<Record<string, string>>) => Promise<Answer>;
}

/** Paths are those below `/projects/{id}`. */
export const mailProject = async (
  { client }: TestPlatform,
  smtp?: Readonly<Record<string, unknown>>,
  plan = 'enterprise',
): Promise<MailScene> => {
  const user = await client.signUp();
  const project = await client.createProject(user, { plan });
  const call: MailScene['call'] = (method, path, body, headers = {}) =>
    client.call(method, `/projects/${project.id}${path}`, { token: user.token, body, headers });
  const sendTest: MailScene['sendTest'] = (to = 'ada@example.com', headers = {}) =>
    call('POST', '/email/templates/signup/send-test', { email: to }, headers);
  if (smtp) {
    const settings = { host: '127.0.0.1', from_email: 'shop@example.com', from_name: 'The Shop', ...smtp };
    const answer = await call('PUT', '/email/smtp', settings);
    if (answer.status !== 200) throw new Error(`the settings answered ${answer.status}: ${answer.text}`);
  }
  return { user, project, call, sendTest };
};

/** The rows of a project's mails, the oldest first. */
export const emailRows = ({ db }: TestPlatform, projectId: string) =>
  db.query<{
    id: string;
    status: string;
    attempts: number;
    response: string | null;
    error: string | null;
    message_id: string | null;
    content_sealed: Buffer | null;
    sent_at: Date | null;
  }>('select * from emails where project_id = $1 order by created_at, id', [projectId]);
