import { z } from 'zod';
import { changeAuthSettings, readAuthSettings } from '#domain/end-users/settings.ts';
import { inProject } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id } from '../fields.ts';

const area = 'auth';
const path = '/projects/{project_id}/auth/settings';
const params = z.object({ project_id: id });

const minute = 60;
const year = 365 * 86_400;
const lifetime = z.int().min(minute).max(year);

const signup = z.enum(['open', 'invite', 'closed']).describe('Who becomes a user: everybody, who is invited, nobody.');
const passwordMin = z.int().min(6).max(64).describe('The fewest characters of a password.');
const idle = lifetime.describe('A sign-in that is not used for so long ends; seconds.');
const absolute = lifetime.describe('A sign-in ends after so long; seconds.');
const single = z.boolean().describe('A new sign-in of a user ends the earlier ones.');

const settings = z.object({
  signup,
  password_min: passwordMin,
  session: z.object({ idle_s: idle, absolute_s: absolute, single }),
});

const change = z.strictObject({
  signup: signup.optional(),
  password_min: passwordMin.optional(),
  session: z
    .strictObject({ idle_s: idle.optional(), absolute_s: absolute.optional(), single: single.optional() })
    .optional(),
});

/** How a project's users sign in (contract, section 9). */
export const authSettingsEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path,
    area,
    summary: 'How the project’s users sign in',
    access: inProject('viewer'),
    params,
    response: settings,
    handle: (_input, { db, project }) => readAuthSettings(db, project.id),
  }),
  endpoint({
    method: 'patch',
    path,
    area,
    summary: 'Change how the project’s users sign in; what is left out stays',
    access: inProject('admin'),
    params,
    body: change,
    response: settings,
    handle: async ({ body }, call) => {
      call.afterCommit(() => call.deps.projectChanged(call.project.id));
      return changeAuthSettings(call.db, call.project.id, body);
    },
  }),
];
