import type { Project } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { EndUserDeps } from './end-users.ts';
import { AuthError } from './errors.ts';
import type { CaptchaProvider, CaptchaSettings } from './settings.ts';

type CaptchaProject = Pick<Project, 'id' | 'data_key'>;

/** Both answer the same request in the same form. */
const addresses: Readonly<Record<CaptchaProvider, string>> = {
  turnstile: 'https://challenges.cloudflare.com/turnstile/v0/siteverify',
  hcaptcha: 'https://api.hcaptcha.com/siteverify',
};

const aboutSecret = 'captcha-secret';

export const sealCaptchaSecret = (deps: Pick<EndUserDeps, 'sealer'>, project: CaptchaProject, secret: string): string =>
  deps.sealer(project).seal(aboutSecret, secret).toString('base64');

const timeoutMs = 5000;
const maxBytes = 16 * 1024;
const maxTokenLength = 8192;

const refused = (): AuthError =>
  new AuthError('captcha_failed', 'The captcha is missing, wrong, or too old.', {
    hint: 'Send its answer as captchaToken in the options of the call.',
  });

const ask = async (
  deps: EndUserDeps,
  project: CaptchaProject,
  captcha: CaptchaSettings,
  { token, ip }: { readonly token: string; readonly ip: string },
): Promise<boolean> => {
  const secret = deps.sealer(project).open(aboutSecret, Buffer.from(captcha.secret_sealed, 'base64'));
  const { status, body } = await deps.egress.fetch(captcha.verify_url ?? addresses[captcha.provider], {
    for: 'platform',
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ secret, response: token, remoteip: ip }).toString(),
    timeoutMs,
    maxBytes,
  });
  if (status !== 200) throw new Error(`the captcha service answered ${status}`);
  return (JSON.parse(body.toString()) as { success?: unknown }).success === true;
};

/**
 * Where a project asks for a captcha, checks its answer with the service that made it.
 * @throws {AuthError} `captcha_failed`
 * @throws {ServiceError} `dependency_unavailable` when the service cannot be asked
 */
export const requireCaptcha = async (
  deps: EndUserDeps,
  project: CaptchaProject,
  given: { readonly token: string | null | undefined; readonly ip: string },
): Promise<void> => {
  const { captcha } = await deps.settings.of(project.id);
  if (captcha === null) return;
  const { token, ip } = given;
  if (!token || token.length > maxTokenLength) throw refused();
  const isRight = await ask(deps, project, captcha, { token, ip }).catch((cause: unknown) => {
    throw new ServiceError('dependency_unavailable', 'The captcha could not be checked. Try again shortly.', { cause });
  });
  if (!isRight) throw refused();
};
