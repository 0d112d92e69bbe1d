import type { KoaContextWithOIDC } from 'oidc-provider';
import type { Issuer, OAuthDeps } from '#domain/oauth/oauth.ts';
import type { LibraryForm, ProviderPages } from '#domain/oauth/provider.ts';
import { type Markup, html } from '../html.ts';
import { type HostedPage, brandOf, formTargetOf, hostedHeaders, hostedText } from './layout.ts';
import { type Texts, filled, textsFor } from './texts/texts.ts';

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

const textsOf = (ctx: KoaContextWithOIDC): Texts =>
  textsFor(textOf(ctx.oidc.params?.['ui_locales']) ?? textOf(ctx.query['ui_locales']), ctx.get('accept-language'));

const hiddenFields = ({ fields }: LibraryForm): Markup =>
  html`${Object.entries(fields).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}`;

type Part = Omit<HostedPage, 'brand' | 'texts'>;

type Show = (ctx: KoaContextWithOIDC, part: (texts: Texts) => Part) => Promise<void>;

const devicePages = (show: Show): Pick<ProviderPages, 'deviceCode' | 'deviceConfirm' | 'deviceDone'> => ({
  deviceCode: (ctx, form, failure) =>
    show(ctx, (texts) => ({
      title: texts.deviceTitle,
      failure: failure && (failure === 'AbortedError' ? texts.deviceStopped : texts.deviceWrong),
      content: html`<p>${texts.deviceText}</p>
        <form method="post" action="${form.action}">
          ${hiddenFields(form)}
          <label
            >${texts.code}
            <input name="user_code" autocomplete="off" autocapitalize="characters" maxlength="20" required autofocus />
          </label>
          <button>${texts.continue}</button>
        </form>`,
    })),
  deviceConfirm: (ctx, form, { client, code }) =>
    show(ctx, (texts) => ({
      title: texts.deviceConfirmTitle,
      content: html`<p>${filled(texts.deviceConfirmText, { client })}</p>
        <p class="code">${code}</p>
        <form method="post" action="${form.action}">
          ${hiddenFields(form)}
          <button>${texts.deviceConnect}</button>
          <button class="quiet" name="abort" value="yes">${texts.cancel}</button>
        </form>`,
    })),
  deviceDone: (ctx) =>
    show(ctx, (texts) => ({ title: texts.deviceDoneTitle, content: html`<p>${texts.deviceDoneText}</p>` })),
});

const logOutPages = (show: Show, { project }: Issuer): Pick<ProviderPages, 'logOut' | 'loggedOut'> => ({
  logOut: (ctx, form) => {
    const target = textOf(ctx.oidc.params?.['post_logout_redirect_uri']);
    return show(ctx, (texts) => ({
      title: filled(texts.logOutTitle, { name: project.name }),
      formTargets: target === undefined ? [] : [formTargetOf(target)],
      content: html`<p>${texts.logOutText}</p>
        <form method="post" action="${form.action}">
          ${hiddenFields(form)}
          <button name="logout" value="yes">${texts.logOut}</button>
          <button class="quiet">${texts.stay}</button>
        </form>`,
    }));
  },
  loggedOut: (ctx) =>
    show(ctx, (texts) => ({ title: texts.loggedOutTitle, content: html`<p>${texts.loggedOutText}</p>` })),
});

/** The pages that oidc-provider asks for, in the project's name. */
export const providerPagesOf = ({ endUsers }: Pick<OAuthDeps, 'endUsers'>, issuer: Issuer): ProviderPages => {
  const { project } = issuer;
  const show: Show = async (ctx, part) => {
    const texts = textsOf(ctx);
    const brand = brandOf(project, await endUsers.settings.of(project.id));
    const { text, policy } = hostedText({ brand, texts, ...part(texts) });
    ctx.set(hostedHeaders);
    ctx.set('Content-Security-Policy', policy);
    ctx.type = 'html';
    ctx.body = text;
  };
  return {
    ...logOutPages(show, issuer),
    ...devicePages(show),
    error: (ctx, { error, error_description: description }) =>
      show(ctx, (texts) => ({
        title: texts.errorTitle,
        content: html`<p>${texts.expired}</p>
          <p>${filled(texts.errorCode, { code: [error, description].filter(Boolean).join(': ') })}</p>`,
      })),
  };
};
