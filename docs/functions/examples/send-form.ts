/**
 * Sends a form with a file, as a browser would.
 *
 * @env API_URL={server}
 * @payload {"title":"Minutes","text":"We met."}
 * @answer {"sent":true,"receivedFields":["title","document"]}
 */
import type { Handler } from 'plinth/functions';

export const handler: Handler<{ title: string; text: string }> = async ({ title, text }, { env }) => {
  const form = new FormData();
  form.set('title', title);
  form.set('document', new File([text], 'minutes.txt', { type: 'text/plain' }));
  const response = await fetch(new URL('/form', env.API_URL), { method: 'POST', body: form });
  const { fields } = await response.json();
  return { sent: response.ok, receivedFields: fields };
};
