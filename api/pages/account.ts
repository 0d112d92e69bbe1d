import { z } from 'zod';
import { actingAs } from '#domain/audit/actor.ts';
import { confirmEmail, confirmationOf } from '#domain/accounts/profile.ts';
import { hashPassword } from '#domain/accounts/passwords.ts';
import { resetPassword, userOfReset } from '#domain/accounts/resets.ts';
import { everyone } from '../access.ts';
import type { BaseCall } from '../call.ts';
import type { Endpoint, RawReply } from '../endpoint.ts';
import { type RawRequest, rawEndpoint } from '../raw-endpoint.ts';
import { bothAlike, messageOf, newPassword, notAlike, readForm } from './form.ts';
import { badNote, goodNote, html, htmlType, page, secured } from './html.ts';

const area = 'pages';

const common = { area, access: everyone, errors: 'page', mediaType: htmlType } as const;

const resetForm = (message: string | null, status = 200): RawReply =>
  page(
    'Set a new password',
    html`<p>All your sign-ins end with it, on all devices.</p>
      ${badNote(message)}
      <form method="post">
        <label
          >New password <small>At least 8 characters</small>
          <input
            name="password"
            type="password"
            autocomplete="new-password"
            minlength="8"
            maxlength="128"
            required
            autofocus
          />
        </label>
        <label
          >Repeat the password
          <input name="repeated" type="password" autocomplete="new-password" minlength="8" maxlength="128" required />
        </label>
        <button>Set the password</button>
      </form>`,
    status,
  );

const passwordFields = z.object(newPassword).refine(bothAlike, notAlike);

const reset = async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
  const token = request.params['token'] ?? '';
  await userOfReset(call.db, token);
  let password: string;
  try {
    ({ password } = await readForm(request, passwordFields));
  } catch (error) {
    return resetForm(messageOf(error), 400);
  }
  const hash = await hashPassword(password);
  await call.deps.db.transaction((tx) => resetPassword(tx, token, hash), actingAs(call.actor));
  return page(
    'Your password is set',
    html`${goodNote('You can sign in with the new password now.')}
      <p>All earlier sign-ins have ended.</p>`,
  );
};

const confirmForm = (email: string): RawReply =>
  page(
    'Confirm your e-mail address',
    html`<p>The address <strong>${email}</strong> becomes the one of your account.</p>
      <form method="post"><button>Confirm the address</button></form>`,
  );

const confirm = async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
  const token = request.params['token'] ?? '';
  const email = await call.deps.db.transaction(
    (tx) => confirmEmail(tx, call.deps.mail, token, call.actor),
    actingAs(call.actor),
  );
  return page('Your address is confirmed', goodNote(`You sign in as ${email} from now on.`));
};

/**
 * Where the links in mails about one's own account lead. Reading a page changes nothing: mail programs do that, too.
 */
export const accountPages: readonly Endpoint[] = [
  rawEndpoint({
    ...common,
    method: 'get',
    path: '/reset-password/{token}',
    summary: 'The page behind a reset link',
    rate: 'refresh',
    handle: async ({ params }, call) => {
      secured(call);
      await userOfReset(call.db, params['token'] ?? '');
      return resetForm(null);
    },
  }),
  rawEndpoint({
    ...common,
    method: 'post',
    path: '/reset-password/{token}',
    summary: 'Set a new password, from that page',
    rate: 'sign-in',
    handle: (request, call) => {
      secured(call);
      return reset(request, call);
    },
  }),
  rawEndpoint({
    ...common,
    method: 'get',
    path: '/confirm-email/{token}',
    summary: 'The page behind a link that confirms an e-mail address',
    rate: 'refresh',
    handle: async ({ params }, call) => {
      secured(call);
      return confirmForm((await confirmationOf(call.db, params['token'] ?? '')).email);
    },
  }),
  rawEndpoint({
    ...common,
    method: 'post',
    path: '/confirm-email/{token}',
    summary: 'Confirm the address, from that page',
    rate: 'sign-in',
    handle: (request, call) => {
      secured(call);
      return confirm(request, call);
    },
  }),
];
