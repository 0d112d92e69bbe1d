import { type Queryable, maybeOne } from '#lib/control-db.ts';
import type { Egress, EgressResponse } from '#lib/egress.ts';
import { callProvider, isSuccess, objectIn } from '#lib/egress/json-api.ts';
import { oneLineOf } from '#lib/one-line.ts';
import type { Sealer } from '#lib/secrets.ts';
import { MailFailure } from './failure.ts';
import type { Mail, Transport } from './transport.ts';

/** The settings of a project's Resend integration; domain/integrations/providers.ts checks them. */
interface ResendConfig {
  readonly api_key: string;
  readonly from_email: string;
  readonly base_url?: string | undefined;
}

export const resendBase = ({ base_url }: ResendConfig): string => base_url ?? 'https://api.resend.com';

/** The name under which the settings of an integration are sealed. */
export const aboutIntegration = (provider: string): string => `integration:${provider}`;

/** The service that sends a project's mail in place of its SMTP server; null when none is configured and active. */
export const findMailProvider = async (
  db: Queryable,
  sealer: Sealer,
  { id }: { readonly id: string },
): Promise<ResendConfig | null> => {
  const row = await maybeOne(
    db.query<{ config_sealed: Buffer }>(
      `select config_sealed from integrations where project_id = $1 and provider = 'resend' and is_active`,
      [id],
      'find-mail-provider',
    ),
  );
  return row === undefined
    ? null
    : (JSON.parse(sealer.open(aboutIntegration('resend'), row.config_sealed)) as ResendConfig);
};

const sendTimeoutMs = 30_000;
const maxWordsLength = 500;
const maxIdLength = 100;

const bodyOf = ({ from_email: from }: ResendConfig, { to, subject, html, text, headers }: Mail): string =>
  JSON.stringify({ from, to: [to], subject, html, text, ...(headers && { headers }) });

/** Returns Resend's reason for refusing a mail, on one line and without the key. */
const wordsOf = (response: EgressResponse, { api_key: key }: ResendConfig): string => {
  const { message } = objectIn(response);
  const providerMessage = typeof message === 'string' ? oneLineOf(message.replaceAll(key, '••••'), maxWordsLength) : '';
  return providerMessage === ''
    ? `Resend answered ${response.status}.`
    : `Resend said (${response.status}): ${providerMessage}`;
};

/** One of its conflicts is temporary: another attempt with the same key is under way. */
const isForNow = (response: EgressResponse): boolean =>
  response.status === 429 ||
  response.status >= 500 ||
  response.status === 408 ||
  (response.status === 409 && objectIn(response)['name'] === 'concurrent_idempotent_requests');

const failureOf = (response: EgressResponse, config: ResendConfig): MailFailure =>
  new MailFailure(isForNow(response) ? 'again' : 'rejected', wordsOf(response, config));

/**
 * Mail by Resend's API. The message id is the idempotency key: what is sent again within 24 hours, because nobody heard
 * the answer, arrives once.
 */
export const resendTransport = (egress: Pick<Egress, 'fetch'>, config: ResendConfig): Transport => ({
  send: async (mail, signal) => {
    const { response, error } = await callProvider(egress, {
      method: 'POST',
      base: resendBase(config),
      path: '/emails',
      headers: {
        authorization: `Bearer ${config.api_key}`,
        'content-type': 'application/json',
        'idempotency-key': mail.messageId,
      },
      body: bodyOf(config, mail),
      timeoutMs: sendTimeoutMs,
      signal,
    });
    if (response === null) throw new MailFailure('again', error);
    if (!isSuccess(response)) throw failureOf(response, config);
    const { id } = objectIn(response);
    const name = typeof id === 'string' ? oneLineOf(id.replaceAll(config.api_key, '••••'), maxIdLength) : '';
    return name === '' ? 'Resend took it.' : `Resend took it as ${name}.`;
  },
  close: () => undefined,
});
