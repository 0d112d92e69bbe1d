import { z } from 'zod';
import { logIn, logInWithFactor } from '#domain/accounts/accounts.ts';
import { type SignedIn, findSignedIn } from '#domain/accounts/callers.ts';
import { type DeviceRequest, decideDeviceRequest, findDeviceRequest } from '#domain/accounts/devices.ts';
import { cookieForm } from '#domain/accounts/sign-ins.ts';
import { actingAs } from '#domain/audit/actor.ts';
import { ServiceError } from '#lib/errors.ts';
import { hashToken } from '#lib/ids.ts';
import { requestOf } from '#api/shapes/accounts.ts';
import { everyone } from '../access.ts';
import { requireOwnOrigin } from '../auth/own-origin.ts';
import { sessionCookieOf, setSessionCookie } from '../auth/session-cookie.ts';
import type { BaseCall } from '../call.ts';
import type { Endpoint, RawReply } from '../endpoint.ts';
import { type RawRequest, rawEndpoint } from '../raw-endpoint.ts';
import { messageOf, readForm } from './form.ts';
import { type Markup, badNote, goodNote, html, htmlType, page, secured } from './html.ts';
import { leadTo } from './lead.ts';

const common = {
  path: '/device',
  area: 'pages',
  access: everyone,
  errors: 'page',
  mediaType: htmlType,
} as const;

const title = 'Sign in a device';

const hidden = (name: string, value: string): Markup => html`<input type="hidden" name="${name}" value="${value}" />`;

const signInForm = (userCode: string, message: string | null, status = 200): RawReply =>
  page(
    title,
    html`<p>Sign in first; then you see which device asks.</p>
      ${badNote(message)}
      <form method="post">
        ${hidden('step', 'sign-in')}${hidden('user_code', userCode)}
        <label
          >E-mail address
          <input name="email" type="email" autocomplete="username" maxlength="254" required autofocus />
        </label>
        <label
          >Password
          <input name="password" type="password" autocomplete="current-password" maxlength="128" required />
        </label>
        <button>Sign in</button>
      </form>`,
    status,
  );

const factorForm = (userCode: string, factorToken: string): RawReply =>
  page(
    title,
    html`<form method="post">
      ${hidden('step', 'factor')}${hidden('user_code', userCode)}${hidden('factor_token', factorToken)}
      <label
        >Code of your authenticator app <small>Or a recovery code</small>
        <input name="code" autocomplete="one-time-code" maxlength="40" required autofocus />
      </label>
      <button>Sign in</button>
    </form>`,
  );

const codeForm = (message: string | null, status = 200): RawReply =>
  page(
    title,
    html`<p>Type the code that your device shows.</p>
      ${badNote(message)}
      <form method="get">
        <label
          >Code
          <input name="user_code" autocomplete="off" autocapitalize="characters" maxlength="20" required autofocus />
        </label>
        <button>Go on</button>
      </form>`,
    status,
  );

const decisionForm = (pending: DeviceRequest, { user }: SignedIn): RawReply =>
  page(
    title,
    html`<p>
        <strong>${pending.client_name}</strong> asks to be signed in as <strong>${user.email}</strong>. It may then do
        all that you may.
      </p>
      <p>
        It pending at ${pending.created_at.toISOString().replace('T', ' ').slice(0, 19)} UTC from the address
        ${pending.ip ?? 'unknown'}${pending.user_agent === null ? '' : ` (${pending.user_agent})`}.
      </p>
      <p>
        Go on only if you have just pending for this, and your device shows the code
        <strong>${pending.user_code}</strong>.
      </p>
      <form method="post">
        ${hidden('user_code', pending.user_code)}
        <button name="step" value="approve">Sign it in</button>
        <button name="step" value="deny" class="quiet">Refuse</button>
      </form>`,
  );

const callerOf = async (request: RawRequest, { db, deps }: BaseCall): Promise<SignedIn | undefined> => {
  const cookie = sessionCookieOf(request.context, deps.config);
  return cookie === undefined ? undefined : findSignedIn(db, { hash: hashToken(cookie), isCookie: true });
};

const unknownCode = 'This code is not known, too old, or was answered already.';

const show = async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
  const userCode = new URLSearchParams(request.queryText).get('user_code') ?? '';
  const caller = await callerOf(request, call);
  if (caller === undefined) return signInForm(userCode, null);
  if (userCode === '') return codeForm(null);
  const pending = await findDeviceRequest(call.db, userCode);
  return pending === undefined ? codeForm(unknownCode, 404) : decisionForm(pending, caller);
};

const text = (max: number): z.ZodString => z.string().max(max);

const fields = z.object({
  step: z.enum(['sign-in', 'factor', 'approve', 'deny'], { error: 'The form is incomplete.' }),
  user_code: text(40).default(''),
  email: text(254).default(''),
  password: text(128).default(''),
  factor_token: text(200).default(''),
  code: text(40).default(''),
});

type Fields = z.output<typeof fields>;

const factorTokenOf = (error: unknown): string | undefined => {
  if (!(error instanceof ServiceError) || error.code !== 'factor_required') return undefined;
  return (error.details as { readonly factor_token: string }).factor_token;
};

const signedInTo = (call: BaseCall, userCode: string, cookie: string): RawReply => {
  setSessionCookie(call, cookie);
  return leadTo(call, `/device?${new URLSearchParams({ user_code: userCode }).toString()}`);
};

const signIn = async (given: Fields, call: BaseCall): Promise<RawReply> => {
  const order = { ...requestOf(call), form: cookieForm };
  try {
    const { tokens } =
      given.step === 'factor'
        ? await logInWithFactor(call.deps, { factorToken: given.factor_token, code: given.code }, order)
        : await logIn(call.deps.db, { email: given.email.trim(), password: given.password }, order);
    return signedInTo(call, given.user_code, tokens);
  } catch (error) {
    const factorToken = factorTokenOf(error);
    if (factorToken !== undefined) return factorForm(given.user_code, factorToken);
    return signInForm(given.user_code, messageOf(error), 401);
  }
};

const decide = async (given: Fields, request: RawRequest, call: BaseCall): Promise<RawReply> => {
  const caller = await callerOf(request, call);
  if (caller === undefined) return signInForm(given.user_code, 'You were signed out meanwhile.', 401);
  const { user, signInId } = caller;
  const actor = { ...call.actor, type: 'user' as const, id: user.id, email: user.email };
  const status = given.step === 'approve' ? 'approved' : 'denied';
  await call.deps.db.transaction(
    (tx) => decideDeviceRequest(tx, status, { userCode: given.user_code, userId: user.id, signInId, actor }),
    actingAs(actor),
  );
  if (status === 'denied') return page('Refused', goodNote('The device was not signed in. You can close this page.'));
  return page('Your device is signed in', goodNote('You can close this page and go on at the device.'));
};

const withPolicy = (call: BaseCall): void => {
  secured(call);
  // The forms must say where they come from; the address holds nothing that the platform itself may not see.
  call.setHeader('Referrer-Policy', 'same-origin');
};

/** Where a person approves the sign-in of a device without a browser (contract, section 11). */
export const devicePages: readonly Endpoint[] = [
  rawEndpoint({
    ...common,
    method: 'get',
    summary: 'The page where the code of a device is approved',
    rate: 'refresh',
    handle: (request, call) => {
      withPolicy(call);
      return show(request, call);
    },
  }),
  rawEndpoint({
    ...common,
    method: 'post',
    summary: 'Sign in on that page, approve a code or refuse it',
    rate: 'sign-in',
    handle: async (request, call) => {
      requireOwnOrigin(request.context, call.deps);
      withPolicy(call);
      const given = await readForm(request, fields);
      return given.step === 'approve' || given.step === 'deny' ? decide(given, request, call) : signIn(given, call);
    },
  }),
];
