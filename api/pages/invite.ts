import { z } from 'zod';
import type { Role } from '#domain/teams/store.ts';
import { type OpenInvite, joinAsNewUser, joinAsUser, openInvite } from '#domain/accounts/join.ts';
import { everyone } from '../access.ts';
import { requestOf } from '#api/shapes/accounts.ts';
import type { BaseCall } from '../call.ts';
import type { Endpoint, RawReply } from '../endpoint.ts';
import { name } from '../fields.ts';
import { type RawRequest, rawEndpoint } from '../raw-endpoint.ts';
import { bothAlike, messageOf, newPassword, notAlike, readForm } from './form.ts';
import { type Markup, badNote, goodNote, html, htmlType, page, secured } from './html.ts';

const roleNames: Readonly<Record<Role, string>> = {
  viewer: 'a viewer',
  developer: 'a developer',
  admin: 'an admin',
  owner: 'an owner',
};

const whatFor = ({ invite }: OpenInvite): Markup =>
  invite.invited_by === null
    ? html`<p>You are invited to <strong>${invite.org_name}</strong> as ${roleNames[invite.role]}.</p>`
    : html`<p>
        ${invite.invited_by} invites you to <strong>${invite.org_name}</strong> as ${roleNames[invite.role]}.
      </p>`;

const address = ({ invite }: OpenInvite): Markup =>
  html`<label
    >E-mail address
    <input type="email" autocomplete="username" value="${invite.email}" readonly />
  </label>`;

interface FormState {
  readonly message: string | null;
  /** The account asks for a second factor. */
  readonly requiresCode?: boolean;
  readonly status?: number;
}

const codeField = (): Markup =>
  html`<label
    >Code of your authenticator app <small>Or a recovery code</small>
    <input name="code" autocomplete="one-time-code" maxlength="40" required />
  </label>`;

const signInForm = (open: OpenInvite, { message, requiresCode = false, status = 200 }: FormState): RawReply =>
  page(
    'Accept the invite',
    html`${whatFor(open)} ${badNote(message)}
      <form method="post">
        ${address(open)}
        <label
          >Your password
          <input name="password" type="password" autocomplete="current-password" maxlength="128" required autofocus />
        </label>
        ${requiresCode ? codeField() : null}
        <button>Join the organization</button>
      </form>`,
    status,
  );

const signUpForm = (open: OpenInvite, { message, status = 200 }: FormState): RawReply =>
  page(
    'Create your account',
    html`${whatFor(open)} ${badNote(message)}
      <form method="post">
        ${address(open)}
        <label
          >Your name <small>Optional</small>
          <input name="full_name" autocomplete="name" maxlength="100" autofocus />
        </label>
        <label
          >Choose a password <small>At least 8 characters</small>
          <input name="password" type="password" autocomplete="new-password" minlength="8" maxlength="128" required />
        </label>
        <label
          >Repeat the password
          <input name="repeated" type="password" autocomplete="new-password" minlength="8" maxlength="128" required />
        </label>
        <button>Create account and join</button>
      </form>`,
    status,
  );

const joined = ({ invite }: OpenInvite): RawReply =>
  page(
    'Welcome',
    html`${goodNote(`You are ${roleNames[invite.role]} of ${invite.org_name} now.`)}
      <p>
        Sign in as <strong>${invite.email}</strong> wherever you use plinth, for instance in
        <a href="/dashboard">the dashboard</a>.
      </p>`,
  );

const signInFields = z.object({
  password: z.string({ error: 'Type your password.' }).max(128, { error: 'The password is wrong.' }),
  code: z.string().max(40, { error: 'The code is too long.' }).default(''),
});

const signUpFields = z
  .object({
    full_name: z
      .string()
      .trim()
      .transform((value) => (value === '' ? null : value))
      .pipe(name.nullable())
      .default(null),
    ...newPassword,
  })
  .refine(bothAlike, notAlike);

const joinDepsOf = ({ deps }: BaseCall) => ({
  db: deps.db,
  sealer: deps.sealer,
  maxOwned: deps.config.PLINTH_ORGS_PER_USER,
});

const statusOf = (error: unknown): number => (error instanceof Error && 'status' in error ? Number(error.status) : 500);

const acceptAsUser = async (request: RawRequest, call: BaseCall, open: OpenInvite): Promise<RawReply> => {
  const { user } = open;
  if (user === undefined) throw new Error('the invited address has no account');
  let requiresCode = false;
  try {
    const { password, code } = await readForm(request, signInFields);
    requiresCode = code !== '';
    const token = request.params['token'] ?? '';
    if (await joinAsUser(joinDepsOf(call), user, { token, password, code }, requestOf(call))) return joined(open);
    return signInForm(open, { message: 'Your account asks for a code, too.', requiresCode: true, status: 401 });
  } catch (error) {
    return signInForm(open, { message: messageOf(error), requiresCode, status: statusOf(error) });
  }
};

const acceptAsNewUser = async (request: RawRequest, call: BaseCall, open: OpenInvite): Promise<RawReply> => {
  try {
    const { password, full_name: fullName } = await readForm(request, signUpFields);
    const token = request.params['token'] ?? '';
    await joinAsNewUser(joinDepsOf(call), open, { token, password, fullName }, requestOf(call));
    return joined(open);
  } catch (error) {
    return signUpForm(open, { message: messageOf(error), status: statusOf(error) });
  }
};

const common = { area: 'pages', access: everyone, errors: 'page', mediaType: htmlType } as const;

/** Where the links of invites lead: with an account one signs in there, without one it is made. */
export const invitePages: readonly Endpoint[] = [
  rawEndpoint({
    ...common,
    method: 'get',
    path: '/invite/{token}',
    summary: 'The page behind an invite',
    rate: 'refresh',
    handle: async ({ params }, call) => {
      secured(call);
      const open = await openInvite(call.db, params['token'] ?? '');
      return open.user === undefined ? signUpForm(open, { message: null }) : signInForm(open, { message: null });
    },
  }),
  rawEndpoint({
    ...common,
    method: 'post',
    path: '/invite/{token}',
    summary: 'Accept the invite, from that page',
    rate: 'sign-in',
    handle: async (request, call) => {
      secured(call);
      const open = await openInvite(call.db, request.params['token'] ?? '');
      return open.user === undefined ? acceptAsNewUser(request, call, open) : acceptAsUser(request, call, open);
    },
  }),
];
