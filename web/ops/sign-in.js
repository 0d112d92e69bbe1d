import { call, inWords } from './api.js';
import { h } from './dom.js';

/** The form that exchanges the token for a session; calls `done` when it did. */
export const signIn = (done) => {
  const fault = h('p', { class: 'fault', role: 'alert' });
  const input = h('input', {
    type: 'password',
    name: 'token',
    autocomplete: 'current-password',
    required: true,
    spellcheck: 'false',
  });
  const submit = h('button', { type: 'submit', class: 'primary' }, 'Sign in');
  const form = h(
    'form',
    { class: 'sign-in' },
    h('h1', {}, 'Operators only'),
    h(
      'p',
      {},
      'The token was printed when this installation first started; it is the setting ',
      h('code', {}, 'PLINTH_OPS_TOKEN'),
      '.',
    ),
    h('label', { class: 'field' }, h('span', {}, 'Token'), input),
    fault,
    submit,
  );
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    submit.disabled = true;
    fault.textContent = '';
    try {
      await call('POST', '/ops/session', { token: input.value });
      await done();
    } catch (error) {
      fault.textContent = inWords(error);
      submit.disabled = false;
      input.select();
    }
  });
  requestAnimationFrame(() => input.focus());
  return form;
};
