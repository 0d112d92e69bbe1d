/**
 * Calls another service: a time-out of its own, an error that says what happened, the answer as JSON.
 *
 * @env API_URL={server}
 * @payload {"city":"Oslo"}
 * @answer {"city":"Oslo","degrees":7,"status":200}
 */
import type { Handler } from 'plinth/functions';

export const handler: Handler<{ city: string }> = async ({ city }, { env }) => {
  const url = new URL('/weather', env.API_URL);
  url.searchParams.set('city', city);
  const response = await fetch(url, { headers: { accept: 'application/json' }, signal: AbortSignal.timeout(5000) });
  if (!response.ok) throw new Error(`The weather service answered ${response.status}.`);
  const { degrees } = await response.json();
  return { city, degrees, status: response.status };
};
