import { z } from 'zod';
import {
  decideDeviceRequest,
  deviceCodeSeconds,
  pollSeconds,
  requestDeviceSignIn,
  signInDevice,
} from '#domain/accounts/devices.ts';
import { requestOf, signedInAnswer, signedInAs } from '#api/shapes/accounts.ts';
import { type SignedIn, everyone, signedInByCookie } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { name, shownOnce, text } from '../../fields.ts';

const area = 'accounts';

const decision = z.strictObject({ user_code: text(20, 1).describe('As the device shows it.') });

const decide = (
  status: 'approved' | 'denied',
  { body }: { readonly body: z.output<typeof decision> },
  { db, user, signInId, actor }: Call<SignedIn>,
): Promise<void> => decideDeviceRequest(db, status, { userCode: body.user_code, userId: user.id, signInId, actor });

/** Sign-in of devices without a browser, RFC 8628 (contract, section 11). */
export const deviceEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/auth/device',
    area,
    summary: 'Begin to sign in a device: a code for it, and one that its user approves at /device',
    access: everyone,
    rate: 'sign-in',
    transaction: 'none',
    errors: 'device',
    body: z.strictObject({ client_name: name }),
    response: z.object({
      device_code: shownOnce(z.string()),
      user_code: shownOnce(z.string()),
      verification_uri: z.string(),
      verification_uri_complete: shownOnce(z.string()),
      expires_in: z.int().describe('Seconds.'),
      interval: z.int().describe('Seconds between two polls.'),
    }),
    handle: async ({ body }, { db, ip, userAgent, baseUrl }) => {
      const { deviceCode, userCode } = await requestDeviceSignIn(db, { clientName: body.client_name, ip, userAgent });
      return {
        device_code: deviceCode,
        user_code: userCode,
        verification_uri: `${baseUrl}/device`,
        verification_uri_complete: `${baseUrl}/device?user_code=${userCode}`,
        expires_in: deviceCodeSeconds,
        interval: pollSeconds,
      };
    },
  }),
  endpoint({
    method: 'post',
    path: '/auth/device/token',
    area,
    summary: 'Ask whether the code of a device is approved; signs it in when it is',
    access: everyone,
    rate: 'refresh',
    transaction: 'none',
    errors: 'device',
    body: z.strictObject({ device_code: text(200, 1) }),
    response: signedInAnswer,
    handle: async ({ body }, call) => signedInAs(await signInDevice(call.deps.db, body.device_code, requestOf(call))),
  }),
  endpoint({
    method: 'post',
    path: '/auth/device/approve',
    area,
    summary: 'Sign in the device that shows this code, as you',
    access: signedInByCookie,
    rate: 'sign-in',
    body: decision,
    status: 204,
    handle: (input, call) => decide('approved', input, call),
  }),
  endpoint({
    method: 'post',
    path: '/auth/device/deny',
    area,
    summary: 'Refuse the device that shows this code',
    access: signedInByCookie,
    rate: 'sign-in',
    body: decision,
    status: 204,
    handle: (input, call) => decide('denied', input, call),
  }),
];
