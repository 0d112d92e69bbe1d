import { z } from 'zod';
import { AuthError } from '#domain/end-users/errors.ts';
import { makeFlowCode } from '#domain/end-users/flow-codes.ts';
import {
  type LinkType,
  type UsedLink,
  linkTypes,
  redirectOfLink,
  resetByLink,
  takeLink,
} from '#domain/end-users/links.ts';
import { methodOf, signInByLink } from '#domain/end-users/sign-in.ts';
import type { AuthSettings } from '#domain/end-users/settings.ts';
import type { Project } from '#domain/projects/store.ts';
import { notFound } from '#lib/errors.ts';
import { everyone } from '../access.ts';
import { authRoot, signInCallOf } from '../auth-call.ts';
import type { BaseCall } from '../call.ts';
import type { Endpoint, RawReply } from '../endpoint.ts';
import { type RawRequest, rawEndpoint } from '../raw-endpoint.ts';
import { bothAlike, readForm } from './form.ts';
import { leadIn, leadTo, withFragment, withQuery } from './lead.ts';
import { type HostedPage, brandOf, formTargetOf, hostedPage } from './hosted/layout.ts';
import { type Texts, filled, textsFor } from './hosted/texts/texts.ts';
import { Markup, html, htmlType } from './html.ts';

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

/** A page in the project's name, in the browser's language. */
interface LinkPages {
  readonly texts: Texts;
  readonly show: (page: Omit<HostedPage, 'brand' | 'texts'>) => RawReply;
  readonly settings: AuthSettings;
}

const pagesOf = async (request: RawRequest, call: BaseCall, project: Project): Promise<LinkPages> => {
  const settings = await call.deps.endUsers.settings.of(project.id);
  const texts = textsFor(undefined, request.header('accept-language'));
  const brand = brandOf(project, settings);
  return { texts, settings, show: (page) => hostedPage(call, { brand, texts, ...page }) };
};

const unusable = ({ texts, show }: LinkPages): RawReply =>
  show({
    title: texts.linkDead,
    failure: texts.linkDeadText,
    content: html`<p>${texts.linkAgain}</p>`,
    status: 403,
  });

interface Given extends z.output<typeof fields> {
  readonly redirectTo: string | null;
}

/** A forgotten password is set here where no page of the application asks for a new one. */
const asksPassword = ({ type, redirectTo }: Given): boolean => type === 'recovery' && redirectTo === null;

const passwordFields = ({ texts, settings }: LinkPages): Markup =>
  html`<label
      >${texts.newPassword} <small>${filled(texts.passwordHint, { min: settings.password_min })}</small>
      <input name="password" type="password" autocomplete="new-password" maxlength="128" required autofocus />
    </label>
    <label
      >${texts.repeatPassword}
      <input name="repeated" type="password" autocomplete="new-password" maxlength="128" required />
    </label>`;

const formPage = (
  pages: LinkPages,
  project: Project,
  given: Given,
  view: { readonly failure?: string; readonly status?: number } = {},
): RawReply => {
  const { texts } = pages;
  const { token, type, redirectTo } = given;
  const isReset = asksPassword(given);
  return pages.show({
    ...view,
    title: isReset ? texts.newPasswordTitle : texts.linkTitles[type],
    formTargets: redirectTo === null ? [] : [formTargetOf(redirectTo)],
    content: html`<p>${filled(texts.linkFor, { name: project.name })}</p>
      <form method="post" action="${view.status === undefined ? 'verify/confirm' : 'confirm'}">
        <input type="hidden" name="token" value="${token}" />
        <input type="hidden" name="type" value="${type}" />
        ${isReset ? passwordFields(pages) : null}
        <button>${isReset ? texts.setPassword : texts.continue}</button>
      </form>`,
  });
};

/** Mail programs open links, so that opening the page must not use the link up: a click on its button does. */
const showForm = async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
  const project = await projectOf(call, request.params['ref']);
  const pages = await pagesOf(request, call, project);
  const given = fields.safeParse(Object.fromEntries(new URLSearchParams(request.queryText)));
  const link = given.success ? await redirectOfLink(call.deps.endUsers, project.id, given.data.token) : undefined;
  if (!given.success || link === undefined) return unusable(pages);
  return formPage(pages, project, { ...given.data, redirectTo: link.redirectTo });
};

const nothing = new Markup('');

/** Back to the application: with a code for the browser that asked for the link, or with the tokens themselves. */
const lead = async (
  call: BaseCall,
  project: Project,
  {
    used,
    type,
    pages: { texts, show },
  }: { readonly used: UsedLink; readonly type: LinkType; readonly pages: LinkPages },
): Promise<RawReply> => {
  const { endUsers } = call.deps;
  const { redirectTo, codeChallenge, userId, kind } = used;
  if (!used.isDone) {
    const message = texts.linkHalfText;
    return redirectTo === null
      ? show({ title: texts.linkHalf, notice: message, content: nothing })
      : leadTo(call, withFragment(withQuery(redirectTo, { message }), { message }));
  }
  if (redirectTo === null) return show({ title: texts.done, notice: texts.linkDone[type], content: nothing });
  const method = methodOf(kind);
  return leadIn(
    call,
    { redirectTo, codeChallenge, type },
    {
      code: (challenge) => makeFlowCode(endUsers, project.id, { userId, method, challenge }),
      signIn: () => signInByLink(endUsers, signInCallOf(call, project), used),
    },
  );
};

/** A form of another page cannot sign anybody in: browsers say where it comes from. */
const isOwnForm = (request: RawRequest, { baseUrl }: BaseCall, restUrl: string): boolean => {
  const origin = request.header('origin');
  const site = request.header('sec-fetch-site');
  if (site !== '' && site !== 'same-origin' && site !== 'none') return false;
  return ['', 'null', URL.parse(baseUrl)?.origin, URL.parse(restUrl)?.origin].includes(origin);
};

const confirmFields = fields.extend({
  password: z.string().max(1000).default(''),
  repeated: z.string().max(1000).default(''),
});

/** Sets the new password; one that is refused leaves the link as it is. */
const reset = async (
  call: BaseCall,
  project: Project,
  given: z.output<typeof confirmFields>,
  pages: LinkPages,
): Promise<RawReply> => {
  const { texts, settings } = pages;
  const again = (failure: string): RawReply =>
    formPage(pages, project, { ...given, redirectTo: null }, { failure, status: 422 });
  if (!bothAlike(given)) return again(texts.notAlike);
  try {
    await resetByLink(call.deps.endUsers, project, given);
  } catch (error) {
    if (!(error instanceof AuthError) || error.code !== 'weak_password') throw error;
    const { weak_password: weak, breached_password: breached } = texts.errors;
    return again(error.weakness === 'pwned' ? breached : filled(weak, { min: settings.password_min }));
  }
  return pages.show({ title: texts.done, notice: texts.linkDone.recovery, content: nothing });
};

const confirm = async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
  const project = await projectOf(call, request.params['ref']);
  const pages = await pagesOf(request, call, project);
  const { urls } = signInCallOf(call, project);
  if (!isOwnForm(request, call, urls.audience)) return unusable(pages);
  const given = await readForm(request, confirmFields);
  const { token, type } = given;
  const link = await redirectOfLink(call.deps.endUsers, project.id, token);
  if (link === undefined) return unusable(pages);
  try {
    if (asksPassword({ ...given, redirectTo: link.redirectTo })) return await reset(call, project, given, pages);
    const used = await takeLink(call.deps.endUsers, project.id, token, type);
    return await lead(call, project, { used, type, pages });
  } catch (error) {
    if (error instanceof AuthError && error.code === 'otp_expired') return unusable(pages);
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
