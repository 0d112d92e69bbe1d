import { z } from 'zod';

export const providerNames = ['slack', 'discord', 'resend', 'stripe', 'paypal', 'razorpay'] as const;
export type ProviderName = (typeof providerNames)[number];
export type Category = 'messaging' | 'email' | 'payments';

// A header's value must not be able to end it; every key of these providers meets that.
const key = z
  .string()
  .max(512)
  .regex(/^[\x21-\x7e]+$/, { error: 'must be printable ASCII characters without spaces' });
const httpUrl = (value: string): boolean => {
  const url = URL.parse(value);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
};
const url = z
  .string()
  .min(1)
  .max(2048)
  .refine((value) => value.isWellFormed() && !/[\s\p{Cc}]/u.test(value), { error: 'must not contain spaces' })
  .refine(httpUrl, { error: 'must be an http or https URL without a user name' });
const baseUrl = url.refine((value) => !/[?#]/.test(value), { error: 'must not have a query' });
const events = z
  .array(z.string().min(1).max(200))
  .min(1)
  .max(100)
  .refine((names) => new Set(names).size === names.length, { error: 'must not name an event twice' });
const functionId = z.uuid({ error: 'must be a UUID' }).toLowerCase();
/** `Name <address>` or an address; what stands in a header has no line breaks. */
const sender = z
  .string()
  .max(320)
  .regex(/^(?:[^<>\p{Cc}\p{Zl}\p{Zp}]*<[^\s<>@]+@[^\s<>@]+>|[^\s<>@\p{Cc}]+@[^\s<>@]+)$/u, {
    error: 'must be an e-mail address, with a name before it or not',
  });

const chat = z.strictObject({ webhook_url: url, events: events.default(['*']) });

/** The stored form of a config. */
export const configSchemas = {
  slack: chat,
  discord: chat,
  resend: z.strictObject({ api_key: key, from_email: sender, base_url: baseUrl.optional() }),
  stripe: z.strictObject({ secret_key: key, webhook_secret: key, function_id: functionId.optional() }),
  paypal: z.strictObject({
    client_id: key,
    client_secret: key,
    webhook_id: key,
    environment: z.enum(['sandbox', 'live']),
    base_url: baseUrl.optional(),
    function_id: functionId.optional(),
  }),
  razorpay: z.strictObject({
    key_id: key,
    key_secret: key,
    webhook_secret: key,
    function_id: functionId.optional(),
  }),
} as const satisfies Record<ProviderName, z.ZodType>;

export type ConfigOf<P extends ProviderName> = z.output<(typeof configSchemas)[P]>;
export type ChatProvider = 'slack' | 'discord';
export type PaymentProvider = 'stripe' | 'paypal' | 'razorpay';

interface ProviderFacts {
  readonly category: Category;
  /** The name that people read. */
  readonly label: string;
  /** Fields that are masked in answers. */
  readonly secrets: readonly string[];
}

const facts = {
  slack: { category: 'messaging', label: 'Slack', secrets: ['webhook_url'] },
  discord: { category: 'messaging', label: 'Discord', secrets: ['webhook_url'] },
  resend: { category: 'email', label: 'Resend', secrets: ['api_key'] },
  stripe: { category: 'payments', label: 'Stripe', secrets: ['secret_key', 'webhook_secret'] },
  paypal: { category: 'payments', label: 'PayPal', secrets: ['client_secret'] },
  razorpay: { category: 'payments', label: 'Razorpay', secrets: ['key_secret', 'webhook_secret'] },
} as const satisfies Record<ProviderName, ProviderFacts>;

export const providerFacts: Readonly<Record<ProviderName, ProviderFacts>> = facts;

export const isProvider = (name: string): name is ProviderName => (providerNames as readonly string[]).includes(name);

export const isChat = (provider: ProviderName): provider is ChatProvider => facts[provider].category === 'messaging';

export const isPayment = (provider: ProviderName): provider is PaymentProvider =>
  facts[provider].category === 'payments';
