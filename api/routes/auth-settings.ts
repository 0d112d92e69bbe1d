import { z } from 'zod';
import { tryClaimsFor } from '#domain/end-users/administration.ts';
import { tryBreachedPasswords } from '#domain/end-users/breached-passwords.ts';
import { sealCaptchaSecret, tryCaptcha } from '#domain/end-users/captcha.ts';
import { faultOfRedirect } from '#domain/end-users/redirects.ts';
import { isMasked, maskSecret } from '#domain/integrations/config.ts';
import {
  type CaptchaSettings,
  type VersionedAuthSettings,
  captchaProviders,
  changeAuthSettings,
  readAuthSettings,
} from '#domain/end-users/settings.ts';
import type { Tried } from '#domain/end-users/trials.ts';
import { ServiceError } from '#lib/errors.ts';
import { inProject } from '../access.ts';
import type { BaseCall, ProjectCall } from '../call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, namedObject, text } from '../fields.ts';
import { expectedOf } from '../http/if-match.ts';

const area = 'auth';
const path = '/projects/{project_id}/auth/settings';
const params = z.object({ project_id: id });

const minute = 60;
const year = 365 * 86_400;
const lifetime = z.int().min(minute).max(year);

const signup = z.enum(['open', 'invite', 'closed']).describe('Who becomes a user: everybody, who is invited, nobody.');
const passwordMin = z.int().min(6).max(64).describe('The fewest characters of a password.');
const listUrl = text(2048, 1)
  .refine((given) => /^https?:$/.test(URL.parse(given)?.protocol ?? ''), { error: 'must be a web address' })
  .describe(
    'An address in the form of https://api.pwnedpasswords.com/range/, behind which a prefix of a SHA-1 is put.',
  );
const breachedPasswords = z
  .strictObject({ url: listUrl })
  .nullable()
  .describe('A list of passwords from data breaches, which nobody may choose; null: none is asked.');
const idle = lifetime.describe('A sign-in that is not used for so long ends; seconds.');
const absolute = lifetime.describe('A sign-in ends after so long; seconds.');
const confirmEmail = z.boolean().describe('New users sign in once they opened the link in a mail.');
const address = text(2048, 1).superRefine((given, context) => {
  const fault = faultOfRedirect(given);
  if (fault !== null) context.addIssue({ code: 'custom', message: fault });
});
const anonymous = z.boolean().describe('Whether somebody may sign in without an address, as a new user each time.');
const mfa = z
  .enum(['off', 'optional', 'required'])
  .describe('Whether users may set up a second factor, or must: a sign-in without one may do nothing but that.');
const captchaProvider = z.enum(captchaProviders);
const verifyUrl = text(2048, 1)
  .refine((given) => /^https?:$/.test(URL.parse(given)?.protocol ?? ''), { error: 'must be a web address' })
  .nullable()
  .describe('Another service that answers in the same form.');
const siteKey = text(200, 1)
  .nullable()
  .describe('The public key, which your application shows to the provider; `auth/v1/settings` answers it.');
const captchaGiven = z.strictObject({
  provider: captchaProvider,
  secret: text(500, 1),
  site_key: siteKey.default(null),
  verify_url: verifyUrl.default(null),
});
const captchaChange = captchaGiven
  .nullable()
  .describe('Asked for at sign-up, at sign-in with a password and for mails below auth/v1; null: nothing is.');
const claimsFunction = id
  .nullable()
  .describe('A function that gets {user, claims} and answers {claims} within 2 s; its failure refuses the sign-in.');
const siteUrl = address.nullable().describe('Your application, where links lead to when nothing else is asked for.');
const allowList = z
  .array(address)
  .max(50)
  .describe('Further addresses that links may lead to: `*` for a part of the path, `**` at the end for the rest.');
const single = z.boolean().describe('A new sign-in of a user ends the earlier ones.');

const logo = text(2048, 1)
  .refine((given) => URL.parse(given)?.protocol === 'https:', { error: 'must be an https address' })
  .nullable()
  .describe('An image for the hosted pages.');
const color = z
  .string()
  .regex(/^#[0-9a-f]{6}$/i, { error: 'must be of the form #1f5fbf' })
  .nullable()
  .describe('The colour of buttons on the hosted pages.');

const settings = namedObject('AuthSettings', {
  signup,
  password_min: passwordMin,
  breached_passwords: breachedPasswords,
  confirm_email: confirmEmail,
  site_url: siteUrl,
  redirect_allow_list: z.array(z.string()),
  anonymous,
  mfa,
  custom_claims_function_id: claimsFunction,
  captcha: z
    .object({
      provider: captchaProvider,
      secret: z.string().describe('Masked.'),
      site_key: siteKey,
      verify_url: verifyUrl,
    })
    .nullable(),
  branding: z.object({ logo_url: logo, color }),
  session: z.object({ idle_s: idle, absolute_s: absolute, single }),
  version: z.int().describe('Rises with each change. If-Match names it.'),
});

const change = z.strictObject({
  signup: signup.optional(),
  password_min: passwordMin.optional(),
  breached_passwords: breachedPasswords.optional(),
  confirm_email: confirmEmail.optional(),
  site_url: siteUrl.optional(),
  redirect_allow_list: allowList.optional(),
  anonymous: anonymous.optional(),
  mfa: mfa.optional(),
  custom_claims_function_id: claimsFunction.optional(),
  captcha: captchaChange.optional(),
  branding: z.strictObject({ logo_url: logo.optional(), color: color.optional() }).optional(),
  session: z
    .strictObject({ idle_s: idle.optional(), absolute_s: absolute.optional(), single: single.optional() })
    .optional(),
});

const shown = (of: VersionedAuthSettings): z.output<typeof settings> => ({
  ...of,
  captcha: of.captcha && {
    provider: of.captcha.provider,
    secret: of.captcha.masked_secret,
    site_key: of.captcha.site_key ?? null,
    verify_url: of.captcha.verify_url,
  },
  redirect_allow_list: [...of.redirect_allow_list],
});

/** @throws {ServiceError} `validation_failed` for a function that the project does not have */
const requireFunction = async (
  { deps, db, project }: BaseCall & ProjectCall,
  functionId: string | null | undefined,
  at = 'custom_claims_function_id',
): Promise<void> => {
  if (!functionId) return;
  await deps.functionVersions.read(db, project.id, { id: functionId }).catch((cause: unknown) => {
    throw new ServiceError('validation_failed', 'The body is not valid.', {
      details: [{ path: at, message: 'must be a function of the project' }],
      cause,
    });
  });
};

/** A secret that is sent back as an answer showed it stays. @throws {ServiceError} `validation_failed` */
const captchaOf = async (
  { deps, db, project }: BaseCall & ProjectCall,
  { secret, ...rest }: z.output<typeof captchaGiven>,
): Promise<CaptchaSettings> => {
  if (!isMasked(secret)) {
    const secretSealed = sealCaptchaSecret(deps.endUsers, project, secret);
    return { ...rest, secret_sealed: secretSealed, masked_secret: maskSecret(secret) };
  }
  const { captcha: present } = await readAuthSettings(db, project.id);
  if (present?.masked_secret === secret && present.verify_url === rest.verify_url) return { ...present, ...rest };
  throw new ServiceError('validation_failed', 'The body is not valid.', {
    details: [{ path: 'captcha.secret', message: 'is masked, and there is no such value to keep' }],
  });
};

const tried = namedObject('ServiceTrial', {
  ok: z.boolean(),
  latency_ms: z.int(),
  error: z.string().nullable().describe('In words; null when it is ok.'),
});

const shownTrial = ({ ok, latencyMs, error }: Tried): z.output<typeof tried> => ({ ok, latency_ms: latencyMs, error });

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
    handle: async (_input, { db, project }) => shown(await readAuthSettings(db, project.id)),
  }),
  endpoint({
    method: 'patch',
    path,
    area,
    summary: 'Change how the project’s users sign in; what is left out stays. If-Match names the version',
    access: inProject('admin'),
    params,
    body: change,
    response: settings,
    handle: async ({ body }, call) => {
      call.afterCommit(() => call.deps.projectChanged(call.project.id));
      await requireFunction(call, body.custom_claims_function_id);
      const { captcha, ...rest } = body;
      const sealed = captcha ? await captchaOf(call, captcha) : captcha;
      return shown(await changeAuthSettings(call.db, call.project.id, { ...rest, captcha: sealed }, expectedOf(call)));
    },
  }),
  endpoint({
    method: 'post',
    path: `${path}/captcha/test`,
    area,
    summary: 'Ask a captcha service whether it knows the secret; a masked secret is the one that is kept',
    access: inProject('admin'),
    params,
    body: z.strictObject({ captcha: captchaGiven }),
    transaction: 'none',
    response: tried,
    handle: async ({ body }, call) =>
      shownTrial(await tryCaptcha(call.deps.endUsers, call.project, await captchaOf(call, body.captcha))),
  }),
  endpoint({
    method: 'post',
    path: `${path}/breached-passwords/test`,
    area,
    summary: 'Ask a list of breached passwords for one that every list has',
    access: inProject('admin'),
    params,
    body: z.strictObject({ url: listUrl }),
    transaction: 'none',
    response: tried,
    handle: async ({ body }, { deps }) => shownTrial(await tryBreachedPasswords(deps.endUsers, body)),
  }),
  endpoint({
    method: 'post',
    path: `${path}/claims/test`,
    area,
    summary: 'The claims that a function of the project makes for a user; it runs once, and nobody signs in',
    access: inProject('developer'),
    params,
    body: z.strictObject({ function_id: id, user_id: id }),
    transaction: 'none',
    response: z.object({
      claims: z
        .record(z.string(), z.unknown())
        .nullable()
        .describe('Of an access token; null: the sign-in would be refused.'),
      ignored: z.array(z.string()).describe('Claims that the function answered, and only the platform sets.'),
      duration_ms: z.int(),
      error: z.string().nullable(),
    }),
    handle: async ({ body }, call) => {
      await requireFunction(call, body.function_id, 'function_id');
      const order = { userId: body.user_id, functionId: body.function_id };
      const { durationMs, ignored, ...found } = await tryClaimsFor(call.deps.endUsers, call.project, order);
      return { ...found, ignored: [...ignored], duration_ms: durationMs };
    },
  }),
];
