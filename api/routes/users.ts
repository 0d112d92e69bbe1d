import { z } from 'zod';
import {
  type Administrator,
  createUser,
  deleteUser,
  listSessions,
  listUsers,
  removeFactor,
  requireUser,
  signInAsUser,
  signOutUser,
  updateUser,
} from '#domain/end-users/administration.ts';
import { generateLink, inviteUser } from '#domain/end-users/invites.ts';
import { redirectFor } from '#domain/end-users/redirects.ts';
import {
  changeOf,
  newUser,
  orderOf,
  shownSession,
  shownUser,
  shownUserOf,
  shownUserWhole,
  shownUserWholeOf,
  userChange,
} from '#api/shapes/end-users.ts';
import { importRequest, readImport } from '#domain/end-users/imports.ts';
import { importedUser, maxImportedUsers, type ReadImport } from '#domain/end-users/import-reader.ts';
import { linkSeconds } from '#domain/end-users/links.ts';
import { ServiceError } from '#lib/errors.ts';
import { usersImport } from '#queues/users-import.ts';
import { inProject } from '../access.ts';
import { signInCallOf } from '../auth-call.ts';
import type { BaseCall, ProjectCall } from '../call.ts';
import { type Endpoint, endpoint, jobEndpoint } from '../endpoint.ts';
import { jobFailure } from '../job-error.ts';
import { withFragment } from '../pages/lead.ts';
import { email, id, instant, page, shownOnce, text } from '../fields.ts';

const area = 'users';
const root = '/projects/{project_id}/users';
const params = z.object({ project_id: id });
const userParams = z.object({ project_id: id, uid: id });

// The users are in another database than the control database's transaction; their audit entries are written first.
const change = { area, access: inProject('developer'), transaction: 'none' } as const;

const administrator = ({ deps, db, project, actor }: BaseCall & ProjectCall): Administrator => ({
  deps: deps.endUsers,
  db,
  project,
  actor,
});

const redirectTo = text(2048, 1)
  .optional()
  .describe('Where the link leads to: an address that the settings of sign-in allow. Left out: the site.');

const redirectOf = async ({ deps, project }: BaseCall & ProjectCall, wanted: string | undefined) =>
  redirectFor(await deps.endUsers.settings.of(project.id), wanted);

/** Ways in for a user, which the team hands out. */
const waysIn: readonly Endpoint[] = [
  endpoint({
    ...change,
    method: 'post',
    path: `${root}/invite`,
    summary: 'Make a user without a password and mail an invitation',
    params,
    body: z.strictObject({
      email,
      user_metadata: z.record(z.string(), z.unknown()).default({}),
      redirect_to: redirectTo,
    }),
    status: 201,
    response: shownUser,
    handle: async ({ body }, call) => {
      const invitation = { email: body.email, userMetadata: body.user_metadata };
      const user = await inviteUser(administrator(call), invitation, await redirectOf(call, body.redirect_to));
      call.deps.endUserMails.wake();
      return shownUserOf(user);
    },
  }),
  endpoint({
    ...change,
    method: 'post',
    path: `${root}/{uid}/reset-link`,
    summary: 'Make a link by which a user sets a new password, within half an hour; mails nothing',
    params: userParams,
    body: z.strictObject({ redirect_to: redirectTo }),
    status: 201,
    response: z.object({ url: shownOnce(z.string()), expires_in: z.int().describe('Seconds.') }),
    handle: async ({ params: { uid }, body }, call) => {
      const by = administrator(call);
      const { email: address } = await requireUser(by.deps, call.project.id, uid);
      if (address === null) {
        throw new ServiceError('conflict', 'The user has no e-mail address, and so no password to set anew.');
      }
      const wanted = { kind: 'recovery', email: address, userMetadata: {} } as const;
      const link = await generateLink(by, { ...wanted, redirectTo: await redirectOf(call, body.redirect_to) });
      return { url: link.url, expires_in: linkSeconds('recovery') };
    },
  }),
  endpoint({
    ...change,
    access: inProject('admin'),
    method: 'post',
    path: `${root}/{uid}/sign-in-as`,
    summary: 'Sign in as a user for half an hour; the audit log and the tokens say who did',
    params: userParams,
    body: z.strictObject({ redirect_to: redirectTo }),
    status: 201,
    response: z.object({
      access_token: shownOnce(z.string()),
      refresh_token: shownOnce(z.string()),
      token_type: z.literal('bearer'),
      expires_in: z.int().describe('Seconds.'),
      expires_at: z.int(),
      url: shownOnce(z.string().nullable()).describe(
        'Opens the application signed in as the user, as links in mails do; null: no site is set.',
      ),
    }),
    handle: async ({ params: { uid }, body }, call) => {
      const session = await signInAsUser(administrator(call), signInCallOf(call, call.project), uid);
      const tokens = {
        access_token: session.accessToken,
        refresh_token: session.refreshToken,
        token_type: 'bearer' as const,
        expires_in: session.expiresIn,
        expires_at: session.expiresAt,
      };
      const site = await redirectOf(call, body.redirect_to);
      const fragment = { ...tokens, expires_in: String(tokens.expires_in), expires_at: String(tokens.expires_at) };
      return { ...tokens, url: site === null ? null : withFragment(site, { ...fragment, type: 'magiclink' }) };
    },
  }),
];

/** Administration of a project's users (contract, section 9). */
export const userEndpoints: readonly Endpoint[] = [
  ...waysIn,
  endpoint({
    method: 'get',
    path: root,
    area,
    summary: 'The users of the project, the newest first',
    access: inProject('viewer'),
    params,
    query: page.extend({
      q: text(320, 1).optional().describe('The beginning of an e-mail address, or an id.'),
      provider: text(63, 1).optional().describe('Only users who sign in with it.'),
    }),
    response: z.object({ users: z.array(shownUser), total: z.int() }),
    handle: async ({ query }, { deps, project }) => {
      const { users, total } = await listUsers(deps.endUsers, project.id, query);
      return { users: users.map(shownUserOf), total };
    },
  }),
  endpoint({
    ...change,
    method: 'post',
    path: root,
    summary: 'Make a user; their address counts as confirmed unless the body says otherwise',
    params,
    body: newUser,
    status: 201,
    response: shownUser,
    handle: async ({ body }, call) => shownUserOf(await createUser(administrator(call), orderOf(body))),
  }),
  jobEndpoint({
    method: 'post',
    path: `${root}/import`,
    area,
    summary: 'Import users of another system, with their password hashes, as a job; those that exist are skipped',
    access: inProject('developer'),
    bodyLimit: 'import',
    params,
    body: z.strictObject({ users: z.array(importedUser).max(maxImportedUsers) }),
    readBody: async (json, bytes, owner) => {
      const value = await readImport(json, bytes, owner);
      return { value, digest: value.digest };
    },
    response: usersImport.result,
    request: ({ body }, call) => importRequest(administrator(call), body as unknown as ReadImport, call.requestId),
    answer: ({ outcome: { result, error } }) => {
      if (result !== null) return Promise.resolve(usersImport.result.parse(JSON.parse(result)));
      return Promise.reject(jobFailure(error));
    },
  }),
  endpoint({
    method: 'get',
    path: `${root}/{uid}`,
    area,
    summary: 'One user of the project, with identities and second factors',
    access: inProject('viewer'),
    params: userParams,
    response: shownUserWhole,
    handle: async ({ params: { uid } }, { deps, project }) =>
      shownUserWholeOf(await requireUser(deps.endUsers, project.id, uid)),
  }),
  endpoint({
    ...change,
    method: 'patch',
    path: `${root}/{uid}`,
    summary: 'Change a user; what is left out stays, and a new password ends their sign-ins',
    params: userParams,
    body: userChange,
    response: shownUser,
    handle: async ({ params: { uid }, body }, call) =>
      shownUserOf(await updateUser(administrator(call), uid, changeOf(body))),
  }),
  endpoint({
    ...change,
    method: 'delete',
    path: `${root}/{uid}`,
    summary: 'Delete a user, with the rows that refer to them on delete cascade',
    params: userParams,
    handle: async ({ params: { uid } }, call) => void (await deleteUser(administrator(call), uid)),
  }),
  endpoint({
    ...change,
    method: 'post',
    path: `${root}/{uid}/ban`,
    summary: 'Ban a user until a time; ends their sign-ins',
    params: userParams,
    body: z.strictObject({
      until: instant.refine((time) => time.getTime() > Date.now(), { error: 'must lie in the future' }),
    }),
    response: shownUser,
    handle: async ({ params: { uid }, body }, call) =>
      shownUserOf(await updateUser(administrator(call), uid, { bannedUntil: body.until })),
  }),
  endpoint({
    ...change,
    method: 'post',
    path: `${root}/{uid}/unban`,
    summary: 'Let a banned user in again',
    params: userParams,
    response: shownUser,
    handle: async ({ params: { uid } }, call) =>
      shownUserOf(await updateUser(administrator(call), uid, { bannedUntil: null })),
  }),
  endpoint({
    method: 'get',
    path: `${root}/{uid}/sessions`,
    area,
    summary: 'Where a user is signed in, the newest first; 200 at most',
    access: inProject('developer'),
    params: userParams,
    response: z.object({ sessions: z.array(shownSession) }),
    handle: async ({ params: { uid } }, { deps, project }) => ({
      sessions: [...(await listSessions(deps.endUsers, project.id, uid))],
    }),
  }),
  endpoint({
    ...change,
    method: 'delete',
    path: `${root}/{uid}/sessions`,
    summary: 'End all sign-ins of a user',
    params: userParams,
    handle: ({ params: { uid } }, call) => signOutUser(administrator(call), uid),
  }),
  endpoint({
    ...change,
    method: 'delete',
    path: `${root}/{uid}/factors/{factor_id}`,
    summary: 'Remove a second factor that a user has lost',
    params: userParams.extend({ factor_id: id }),
    handle: ({ params: { uid, factor_id: factorId } }, call) => removeFactor(administrator(call), uid, factorId),
  }),
];
