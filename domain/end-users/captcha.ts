import type { Project } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { EndUserDeps } from './end-users.ts';
import { AuthError } from './errors.ts';
import type { CaptchaProvider, CaptchaSettings } from './settings.ts';
import { type Tried, tryService } from './trials.ts';

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

/** The captcha service answered something that is no answer of one. */
class UnusableAnswer extends Error {}

interface Verification {
  readonly isRight: boolean;
  /** The codes by which the service says what was wrong. */
  readonly codes: readonly string[];
}

const verificationIn = (text: string): Verification => {
  const answer: unknown = JSON.parse(text);
  if (typeof answer !== 'object' || answer === null) throw new UnusableAnswer('It answered no object.');
  const { success, 'error-codes': codes } = answer as { readonly success?: unknown; readonly 'error-codes'?: unknown };
  return {
    isRight: success === true,
    codes: Array.isArray(codes) ? codes.filter((code) => typeof code === 'string') : [],
  };
};

const verify = async (
  deps: Pick<EndUserDeps, 'sealer' | 'egress'>,
  project: CaptchaProject,
  captcha: CaptchaSettings,
  form: Readonly<Record<string, string>>,
): Promise<Verification> => {
  const secret = deps.sealer(project).open(aboutSecret, Buffer.from(captcha.secret_sealed, 'base64'));
  const { status, body } = await deps.egress.fetch(captcha.verify_url ?? addresses[captcha.provider], {
    for: 'platform',
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ secret, ...form }).toString(),
    timeoutMs,
    maxBytes,
  });
  if (status !== 200) throw new UnusableAnswer(`It answered ${status}.`);
  return verificationIn(body.toString());
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
  const { isRight } = await verify(deps, project, captcha, { response: token, remoteip: ip }).catch(
    (cause: unknown) => {
      throw new ServiceError('dependency_unavailable', 'The captcha could not be checked. Try again shortly.', {
        cause,
      });
    },
  );
  if (!isRight) throw refused();
};

/** Stands for the answer of a person: a service that knows the secret refuses this, and not the secret. */
const noAnswer = 'plinth-test';

const aboutTheSecret = /secret/;

const faultOfTrial = ({ isRight, codes }: Verification): string | null => {
  const code = isRight ? undefined : codes.find((one) => aboutTheSecret.test(one));
  return code === undefined ? null : `It does not know the secret (${code.slice(0, 100)}).`;
};

const faultOfAnswer = (error: unknown): string => {
  if (error instanceof UnusableAnswer) return error.message;
  if (error instanceof SyntaxError) return 'Its answer is not JSON.';
  throw error;
};

/** Whether a captcha service can be asked, and knows the secret. */
export const tryCaptcha = (
  deps: Pick<EndUserDeps, 'sealer' | 'egress'>,
  project: CaptchaProject,
  captcha: CaptchaSettings,
): Promise<Tried> =>
  tryService(() => verify(deps, project, captcha, { response: noAnswer }).then(faultOfTrial, faultOfAnswer));
