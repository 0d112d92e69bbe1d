import { createHmac, timingSafeEqual } from 'node:crypto';
import type Provider from 'oidc-provider';
import { z } from 'zod';
import { AuthError } from '#domain/end-users/errors.ts';
import { requireMailRoom } from '#domain/end-users/attempts.ts';
import { accountOfNew, registerUser, requireAddress } from '#domain/end-users/sign-up.ts';
import { findAccount } from '#domain/end-users/users.ts';
import { SessionNotFound } from '#domain/oauth/library.ts';
import type { HostedSignIn } from '#domain/oauth/sign-in.ts';
import { finishHosted, noteSignIn, signInHosted } from '#domain/oauth/sign-in.ts';
import type { AuthSettings } from '#domain/end-users/settings.ts';
import { type ErrorCode, ServiceError } from '#lib/errors.ts';
import { everyone } from '../../access.ts';
import { signInCallOf } from '../../auth-call.ts';
import type { BaseCall } from '../../call.ts';
import { type Endpoint, RawReply } from '../../endpoint.ts';
import { type CalledIssuer, issuerOf, oauthRoot } from '../../oauth-call.ts';
import { type RawRequest, rawEndpoint } from '../../raw-endpoint.ts';
import { bothAlike, readForm } from '../form.ts';
import { type Markup, html, htmlType } from '../html.ts';
import { type HostedPage, brandOf, formTargetOf, hostedPage } from './layout.ts';
import { type Texts, filled, textsFor } from './texts/texts.ts';

type Interaction = Awaited<ReturnType<Provider['interactionDetails']>>;

/** A request for a sign-in that waits for its user, and what its pages need. */
interface Opened {
  readonly call: BaseCall;
  readonly request: RawRequest;
  readonly issuer: CalledIssuer;
  readonly provider: Provider;
  readonly interaction: Interaction;
  readonly settings: AuthSettings;
  readonly texts: Texts;
  /** The name of the client. */
  readonly client: string;
}

const param = ({ params }: Pick<Interaction, 'params'>, name: string): string | undefined => {
  const value = params[name];
  return typeof value === 'string' ? value : undefined;
};

const tooOld = (call: BaseCall, issuer: CalledIssuer, settings: AuthSettings, texts: Texts): RawReply =>
  hostedPage(call, {
    brand: brandOf(issuer.project, settings),
    texts,
    title: texts.expiredTitle,
    content: html`<p>${texts.expired}</p>`,
    status: 400,
  });

const isGone = (error: unknown): boolean => error instanceof SessionNotFound;

/** Proves that a form is one of this interaction's own pages: a page of a stranger cannot know it. */
const formTokenOf = ({ call, issuer, interaction }: Opened): string =>
  createHmac('sha256', call.deps.endUsers.sealer(issuer.project).keyFor('oauth-forms'))
    .update(interaction.uid)
    .digest('base64url');

const isSame = (one: string, other: string): boolean =>
  one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));

/** @throws {ServiceError} `forbidden` */
const requireOwnForm = (opened: Opened, token: string): void => {
  const { request, issuer } = opened;
  const origin = request.header('origin');
  const site = request.header('sec-fetch-site');
  const isOwn = ['', 'null', new URL(issuer.url).origin].includes(origin) && !/^(cross-site|same-site)$/.test(site);
  if (isOwn && isSame(token, formTokenOf(opened))) return;
  throw new ServiceError('forbidden', 'This form was not sent by its own page.', { hint: 'Open the page again.' });
};

const open = async (request: RawRequest, call: BaseCall): Promise<Opened | RawReply> => {
  const issuer = await issuerOf(call, request.params['project_id']);
  const settings = await call.deps.endUsers.settings.of(issuer.project.id);
  const provider = await call.deps.issuers.of(issuer);
  const { req, res } = request.context;
  const plain = textsFor(undefined, request.header('accept-language'));
  try {
    const interaction = await provider.interactionDetails(req, res);
    if (interaction.uid !== request.params['uid']) return tooOld(call, issuer, settings, plain);
    const client = await provider.Client.find(param(interaction, 'client_id') ?? '');
    const texts = textsFor(param(interaction, 'ui_locales'), request.header('accept-language'));
    return { call, request, issuer, provider, interaction, settings, texts, client: client?.clientName ?? '' };
  } catch (error) {
    if (isGone(error)) return tooOld(call, issuer, settings, plain);
    throw error;
  }
};

const show = (opened: Opened, page: Omit<HostedPage, 'brand' | 'texts'>): RawReply => {
  const { call, issuer, settings, texts, interaction } = opened;
  const redirect = param(interaction, 'redirect_uri');
  const formTargets = redirect === undefined ? [] : [formTargetOf(redirect)];
  return hostedPage(call, { brand: brandOf(issuer.project, settings), texts, formTargets, ...page });
};

const pathOf = ({ issuer, interaction }: Opened): string =>
  `${new URL(issuer.url).pathname}/interaction/${interaction.uid}`;

const form = (opened: Opened, action: string, content: Markup): Markup =>
  html`<form method="post" action="${pathOf(opened)}/${action}">
    <input type="hidden" name="form" value="${formTokenOf(opened)}" />
    ${content}
  </form>`;

const link = (opened: Opened, view: string, text: string): Markup =>
  html`<li><a href="${pathOf(opened)}${view === '' ? '' : `?view=${view}`}">${text}</a></li>`;

const cancelForm = (opened: Opened, text: string): Markup =>
  form(opened, 'abort', html`<button class="quiet">${text}</button>`);

interface View {
  readonly failure?: string | null;
  readonly notice?: string | null;
  readonly status?: number;
  readonly email?: string;
}

const emailField = ({ texts }: Opened, email: string): Markup =>
  html`<label
    >${texts.email}
    <input
      name="email"
      type="email"
      autocomplete="username"
      maxlength="320"
      value="${email}"
      required
      ${email === '' ? 'autofocus' : ''}
    />
  </label>`;

const signInPage = (opened: Opened, { email, ...view }: View = {}): RawReply => {
  const { texts, issuer, settings, interaction, client } = opened;
  const links = [
    ...(settings.signup === 'open' ? [link(opened, 'signup', texts.signUp)] : []),
    link(opened, 'forgot', texts.forgot),
  ];
  return show(opened, {
    ...view,
    title: filled(texts.signInTo, { name: issuer.project.name }),
    content: html`<p>${filled(texts.continueTo, { client })}</p>
      ${form(
        opened,
        'login',
        html`${emailField(opened, email ?? param(interaction, 'login_hint') ?? '')}
          <label
            >${texts.password}
            <input name="password" type="password" autocomplete="current-password" maxlength="128" required />
          </label>
          <button>${texts.signIn}</button>`,
      )}
      ${cancelForm(opened, texts.cancel)}
      <ul class="links">
        ${links}
      </ul>`,
  });
};

const signUpPage = (opened: Opened, { email = '', ...view }: View = {}): RawReply => {
  const { texts, issuer, settings } = opened;
  return show(opened, {
    ...view,
    title: filled(texts.signUpAt, { name: issuer.project.name }),
    content: html`${form(
        opened,
        'signup',
        html`${emailField(opened, email)}
          <label
            >${texts.password} <small>${filled(texts.passwordHint, { min: settings.password_min })}</small>
            <input name="password" type="password" autocomplete="new-password" maxlength="128" required />
          </label>
          <label
            >${texts.repeatPassword}
            <input name="repeated" type="password" autocomplete="new-password" maxlength="128" required />
          </label>
          <button>${texts.signUp}</button>`,
      )}
      <ul class="links">
        ${link(opened, '', texts.haveAccount)}
      </ul>`,
  });
};

const forgotPage = (opened: Opened, { email = '', ...view }: View = {}): RawReply => {
  const { texts } = opened;
  return show(opened, {
    ...view,
    title: texts.forgotTitle,
    content: html`<p>${texts.forgotText}</p>
      ${form(opened, 'forgot', html`${emailField(opened, email)}<button>${texts.sendLink}</button>`)}
      <ul class="links">
        ${link(opened, '', texts.back)}
      </ul>`,
  });
};

const factorPage = (opened: Opened, half: string, view: View = {}): RawReply => {
  const { texts } = opened;
  return show(opened, {
    ...view,
    title: texts.factorTitle,
    content: html`<p>${texts.factorText}</p>
      ${form(
        opened,
        'factor',
        html`<input type="hidden" name="half" value="${half}" />
          <label
            >${texts.code}
            <input name="code" inputmode="numeric" autocomplete="one-time-code" maxlength="20" required autofocus />
          </label>
          <button>${texts.continue}</button>`,
      )}
      ${cancelForm(opened, texts.cancel)}`,
  });
};

const isScope = (name: string, { scopes }: Texts): name is keyof Texts['scopes'] => Object.hasOwn(scopes, name);

const consentPage = async (opened: Opened): Promise<RawReply> => {
  const { texts, issuer, client, interaction, call } = opened;
  const { accountId = '' } = interaction.session ?? {};
  const user = await findAccount(call.deps.endUsers.authDb, issuer.project.id, accountId);
  const requested = [...new Set((param(interaction, 'scope') ?? '').split(' '))].filter((name) => isScope(name, texts));
  const rows = requested.map((name) => html`<li>${isScope(name, texts) ? texts.scopes[name] : name}</li>`);
  return show(opened, {
    title: filled(texts.consentTitle, { client }),
    content: html`<p>
        ${filled(texts.consentText, { client, name: issuer.project.name, account: user?.email ?? accountId })}
      </p>
      <ul class="scopes">
        ${rows}
      </ul>
      ${form(opened, 'consent', html`<button>${texts.allow}</button>`)} ${cancelForm(opened, texts.deny)}`,
  });
};

const isView = (opened: Opened, view: string): boolean =>
  new URLSearchParams(opened.request.queryText).get('view') === view;

const showInteraction = async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
  const opened = await open(request, call);
  if (opened instanceof RawReply) return opened;
  if (opened.interaction.prompt.name === 'consent') return consentPage(opened);
  if (isView(opened, 'signup') && opened.settings.signup === 'open') return signUpPage(opened);
  return isView(opened, 'forgot') ? forgotPage(opened) : signInPage(opened);
};

/** Back to the library, which goes on with the request. */
const finish = async ({ provider, request, call }: Opened, result: Record<string, unknown>): Promise<RawReply> => {
  const { req, res } = request.context;
  call.setHeader('Location', await provider.interactionResult(req, res, result));
  call.setHeader('Referrer-Policy', 'no-referrer');
  return new RawReply('', htmlType, 303);
};

const signedIn = (opened: Opened, { accountId, amr }: HostedSignIn): Promise<RawReply> =>
  finish(opened, { login: { accountId, amr: [...amr] } });

/** Refusals of the platform that a user can do nothing about, but should understand. */
const serviceFailures: Partial<Readonly<Record<ErrorCode, keyof Texts['errors']>>> = {
  smtp_not_configured: 'no_mail',
  plan_limit_exceeded: 'signup_disabled',
};

const failureOf = (
  { texts, settings }: Opened,
  error: unknown,
): { readonly failure: string; readonly status: number } => {
  const known = error instanceof ServiceError ? serviceFailures[error.code] : undefined;
  if (error instanceof ServiceError && known !== undefined)
    return { failure: texts.errors[known], status: error.status };
  if (!(error instanceof AuthError)) throw error;
  const code = error.weakness === 'pwned' ? 'breached_password' : error.code;
  const text = Object.hasOwn(texts.errors, code) ? texts.errors[code as keyof Texts['errors']] : texts.errors.other;
  return { failure: filled(text, { min: settings.password_min }), status: error.status };
};

/** Runs a step; a refusal is shown on the page that the form came from. */
const step = async (
  opened: Opened,
  page: (view: View) => RawReply,
  work: () => Promise<RawReply>,
): Promise<RawReply> => {
  try {
    return await work();
  } catch (error) {
    const view = failureOf(opened, error);
    if (error instanceof AuthError) {
      for (const [name, value] of Object.entries(error.headers)) opened.call.setHeader(name, value);
    }
    return page(view);
  }
};

const token = { form: z.string().max(100).default('') };
const emailText = z.string().max(320);
const passwordText = z.string().max(1000);

const signInStep = (opened: Opened, { email, password }: { email: string; password: string }): Promise<RawReply> =>
  step(
    opened,
    (view) => signInPage(opened, { ...view, email }),
    async () => {
      const { call, issuer, interaction } = opened;
      const by = signInCallOf(call, issuer.project);
      const done = await signInHosted(call.deps.oauth, by, interaction.uid, { email, password });
      return 'half' in done ? factorPage(opened, done.half) : signedIn(opened, done);
    },
  );

const factorStep = (opened: Opened, given: { half: string; code: string }): Promise<RawReply> =>
  step(
    opened,
    (view) => factorPage(opened, given.half, view),
    async () => {
      const { call, issuer, interaction } = opened;
      const by = signInCallOf(call, issuer.project);
      return signedIn(opened, await finishHosted(call.deps.oauth, by, interaction.uid, given));
    },
  );

interface NewAccount {
  readonly email: string;
  readonly password: string;
  readonly repeated: string;
}

/** Factors are set up in the application. */
const factorRequired = (): AuthError => new AuthError('insufficient_aal', 'The project requires a second factor.');

const toNowhere = { redirectTo: null, codeChallenge: null };

const signUpStep = (opened: Opened, given: NewAccount): Promise<RawReply> =>
  step(
    opened,
    (view) => signUpPage(opened, { ...view, email: given.email }),
    async () => {
      const { call, issuer, texts } = opened;
      const { email, password } = given;
      if (!bothAlike(given)) return signUpPage(opened, { email, failure: texts.notAlike, status: 400 });
      if (opened.settings.mfa === 'required') throw factorRequired();
      const { endUsers } = call.deps;
      const order = { email, password, data: {} };
      const by = signInCallOf(call, issuer.project);
      const { user, isPending } = await registerUser(endUsers, by, order, toNowhere);
      if (isPending) {
        call.deps.endUserMails.wake();
        return signInPage(opened, { email, notice: texts.confirmSent });
      }
      const account = await accountOfNew(endUsers, issuer.project.id, user);
      await noteSignIn(call.deps.oauth, issuer.project.id, { user: account, counted: null }, 'password');
      return signedIn(opened, { accountId: user.id, amr: ['pwd'] });
    },
  );

/** The answer is the same whether anybody has the address or not. */
const forgotStep = (opened: Opened, given: { email: string }): Promise<RawReply> =>
  step(
    opened,
    (view) => forgotPage(opened, { ...view, email: given.email }),
    async () => {
      const { call, issuer, texts } = opened;
      const { mails } = call.deps.endUsers;
      const email = requireAddress(given.email);
      await requireMailRoom(call.deps.endUsers, signInCallOf(call, issuer.project));
      await mails.require(issuer.project);
      await mails.request(issuer.project, { kind: 'recovery', email, ...toNowhere });
      call.deps.endUserMails.wake();
      return signInPage(opened, { email, notice: texts.linkSent });
    },
  );

/** The access that a user is to allow: all of it or nothing. */
interface Missing {
  readonly missingOIDCScope?: string[];
  readonly missingOIDCClaims?: string[];
  readonly missingResourceScopes?: Readonly<Record<string, string[]>>;
}

const consentStep = async (opened: Opened): Promise<RawReply> => {
  const { provider, interaction } = opened;
  const { grantId, session } = interaction;
  const known = grantId === undefined ? undefined : await provider.Grant.find(grantId);
  const grant =
    known ?? new provider.Grant({ accountId: session?.accountId, clientId: param(interaction, 'client_id') });
  const missing = interaction.prompt.details as Missing;
  if (missing.missingOIDCScope) grant.addOIDCScope(missing.missingOIDCScope.join(' '));
  if (missing.missingOIDCClaims) grant.addOIDCClaims(missing.missingOIDCClaims);
  for (const [resource, names] of Object.entries(missing.missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, names.join(' '));
  }
  return finish(opened, { consent: { grantId: await grant.save() } });
};

const abortStep = (opened: Opened): Promise<RawReply> =>
  finish(opened, { error: 'access_denied', error_description: 'the user did not go on' });

const common = { area: 'pages', access: everyone, errors: 'page', mediaType: htmlType, rate: 'refresh' } as const;
const path = `${oauthRoot}/interaction/{uid}`;

/** A form of the pages: sent by one of them, for the prompt that is open. */
const formEndpoint = <Fields extends z.ZodRawShape>(
  name: string,
  summary: string,
  { prompt, fields }: { readonly prompt: 'login' | 'consent' | null; readonly fields: Fields },
  work: (opened: Opened, given: z.output<z.ZodObject<Fields>>) => Promise<RawReply>,
): Endpoint =>
  rawEndpoint({
    ...common,
    method: 'post',
    path: `${path}/${name}`,
    summary,
    handle: async (request, call) => {
      const opened = await open(request, call);
      if (opened instanceof RawReply) return opened;
      const given = await readForm(request, z.object({ ...token, ...fields }));
      requireOwnForm(opened, String(Reflect.get(given, 'form')));
      // The form of a page that lies behind: the present one is shown.
      if (prompt !== null && opened.interaction.prompt.name !== prompt) return showInteraction(request, call);
      return work(opened, given as z.output<z.ZodObject<Fields>>);
    },
  });

/** The hosted pages of the OpenID provider. They work without scripts. */
export const interactionPages: readonly Endpoint[] = [
  rawEndpoint({
    ...common,
    method: 'get',
    path,
    summary: 'The page on which a user signs in, signs up, or allows a client what it asks for',
    handle: showInteraction,
  }),
  formEndpoint(
    'login',
    'Sign in with the password, from that page',
    { prompt: 'login', fields: { email: emailText, password: passwordText } },
    signInStep,
  ),
  formEndpoint(
    'factor',
    'Go on with a code of the second factor, from that page',
    { prompt: 'login', fields: { half: z.string().max(1000), code: z.string().max(20) } },
    factorStep,
  ),
  formEndpoint(
    'signup',
    'Create an account, from that page',
    { prompt: 'login', fields: { email: emailText, password: passwordText, repeated: passwordText } },
    signUpStep,
  ),
  formEndpoint(
    'forgot',
    'Ask for a link to reset the password, from that page',
    { prompt: 'login', fields: { email: emailText } },
    forgotStep,
  ),
  formEndpoint(
    'consent',
    'Allow the client what it asks for, from that page',
    { prompt: 'consent', fields: {} },
    consentStep,
  ),
  formEndpoint('abort', 'Go back to the client without a sign-in', { prompt: null, fields: {} }, abortStep),
];
