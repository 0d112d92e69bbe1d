import { z } from 'zod';
import { AuthError } from '#domain/end-users/errors.ts';
import { makeFlowCode } from '#domain/end-users/flow-codes.ts';
import { type LinkType, type UsedLink, linkTypes, redirectOfLink, takeLink } from '#domain/end-users/links.ts';
import { methodOf, signInByLink } from '#domain/end-users/sign-in.ts';
import type { Project } from '#domain/projects/store.ts';
import { notFound } from '#lib/errors.ts';
import { everyone } from '../access.ts';
import { authRoot, signInCallOf } from '../auth-call.ts';
import type { BaseCall } from '../call.ts';
import { type Endpoint, RawReply } from '../endpoint.ts';
import { type RawRequest, rawEndpoint } from '../raw-endpoint.ts';
import { readForm } from './form.ts';
import { badNote, formPolicy, goodNote, html, htmlType, page, secured } from './html.ts';

const common = { area: 'pages', access: everyone, errors: 'page', mediaType: htmlType } as const;

const projectOf = async ({ deps }: BaseCall, ref: string | undefined): Promise<Project> => {
  const project = ref === undefined ? undefined : await deps.keys.findProject(ref);
  if (project === undefined || project.status !== 'active') throw notFound('page');
  return project;
};

const fields = z.object({
  token: z.string({ error: 'The link is not complete.' }).min(1).max(200),
  type: z.enum(linkTypes, { error: 'The link is not complete.' }),
});

const titles: Readonly<Record<LinkType, string>> = {
  signup: 'Confirm your e-mail address',
  invite: 'Accept the invitation',
  magiclink: 'Sign in',
  email: 'Sign in',
  recovery: 'Go on to a new password',
  email_change: 'Confirm the change of your address',
};

const unusable = (): RawReply =>
  page(
    'This link does not work',
    html`${badNote('It was used before, or is too old.')}
      <p>Ask for a new one where you asked for this one.</p>`,
    403,
  );

/**
 * Browsers check where a form leads to after a redirect, too: the application's own address must be named.
 */
const allowForm = ({ setHeader }: BaseCall, redirectTo: string | null): void => {
  const url = redirectTo === null ? null : URL.parse(redirectTo);
  if (url === null) return;
  setHeader('Content-Security-Policy', formPolicy(url.origin === 'null' ? url.protocol : url.origin));
};

/** Mail programs open links, so that opening the page must not use the link up: a click on its button does. */
const showForm = async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
  secured(call);
  const project = await projectOf(call, request.params['ref']);
  const given = fields.safeParse(Object.fromEntries(new URLSearchParams(request.queryText)));
  const link = given.success ? await redirectOfLink(call.deps.endUsers, project.id, given.data.token) : undefined;
  if (!given.success || link === undefined) return unusable();
  const { token, type } = given.data;
  allowForm(call, link.redirectTo);
  return page(
    titles[type],
    html`<p>For your account at <strong>${project.name}</strong>.</p>
      <form method="post" action="verify/confirm">
        <input type="hidden" name="token" value="${token}" />
        <input type="hidden" name="type" value="${type}" />
        <button>Continue</button>
      </form>`,
  );
};

const withFragment = (to: string, values: Readonly<Record<string, string>>): string =>
  `${to}#${new URLSearchParams(values).toString()}`;

const withQuery = (to: string, values: Readonly<Record<string, string>>): string => {
  const url = new URL(to);
  for (const [name, value] of Object.entries(values)) url.searchParams.set(name, value);
  return url.href;
};

const leadTo = (call: BaseCall, address: string): RawReply => {
  call.setHeader('Location', address);
  return new RawReply('', htmlType, 303);
};

const doneTexts: Readonly<Record<LinkType, string>> = {
  signup: 'Your address is confirmed. You can sign in now.',
  invite: 'Your address is confirmed. You can sign in now.',
  magiclink: 'Your address is confirmed. Go back to the application.',
  email: 'Your address is confirmed. Go back to the application.',
  recovery: 'Your address is confirmed. Go back to the application.',
  email_change: 'The change of your address is confirmed.',
};

/** Back to the application: with a code for the browser that asked for the link, or with the tokens themselves. */
const lead = async (call: BaseCall, project: Project, used: UsedLink, type: LinkType): Promise<RawReply> => {
  const { endUsers } = call.deps;
  const { redirectTo, codeChallenge, userId, kind } = used;
  if (!used.isDone) {
    const message = 'Confirmed. Open the link that was sent to the other address, too.';
    return redirectTo === null
      ? page('One more click', goodNote(message))
      : leadTo(call, withFragment(withQuery(redirectTo, { message }), { message }));
  }
  if (redirectTo === null) return page('Done', goodNote(doneTexts[type]));
  if (codeChallenge !== null) {
    const method = methodOf(kind);
    const code = await makeFlowCode(endUsers, project.id, { userId, method, challenge: codeChallenge });
    return leadTo(call, withQuery(redirectTo, { code }));
  }
  const signedIn = await signInByLink(endUsers, signInCallOf(call, project), used);
  return leadTo(
    call,
    withFragment(redirectTo, {
      access_token: signedIn.accessToken,
      refresh_token: signedIn.refreshToken,
      expires_in: String(signedIn.expiresIn),
      expires_at: String(signedIn.expiresAt),
      token_type: 'bearer',
      type,
    }),
  );
};

/** A form of another page cannot sign anybody in: browsers say where it comes from. */
const isOwnForm = (request: RawRequest, { baseUrl }: BaseCall, restUrl: string): boolean => {
  const origin = request.header('origin');
  const site = request.header('sec-fetch-site');
  if (site !== '' && site !== 'same-origin' && site !== 'none') return false;
  return ['', 'null', URL.parse(baseUrl)?.origin, URL.parse(restUrl)?.origin].includes(origin);
};

const confirm = async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
  secured(call);
  const project = await projectOf(call, request.params['ref']);
  const { urls } = signInCallOf(call, project);
  if (!isOwnForm(request, call, urls.audience)) return unusable();
  const { token, type } = await readForm(request, fields);
  try {
    return await lead(call, project, await takeLink(call.deps.endUsers, project.id, token, type), type);
  } catch (error) {
    if (error instanceof AuthError && error.code === 'otp_expired') return unusable();
    throw error;
  }
};

/** The pages behind links in mails to a project's users. */
export const verifyLinkPages: readonly Endpoint[] = [
  rawEndpoint({
    ...common,
    method: 'get',
    path: `${authRoot}/verify`,
    summary: 'The page behind a link in a mail to a user of the project',
    rate: 'refresh',
    handle: showForm,
  }),
  rawEndpoint({
    ...common,
    method: 'post',
    path: `${authRoot}/verify/confirm`,
    summary: 'Use the link up, from that page, and lead back to the application',
    rate: 'refresh',
    handle: confirm,
  }),
];
