import { CallError, inWords } from './api.js';
import { h } from './dom.js';

/**
 * A question with a form. Escape and Cancel leave everything as it is.
 * @param fields elements of the form
 * @param work does what was asked with the form's data; its failure is shown and the dialog stays open
 * @returns whether it was done
 */
export const ask = ({ title, text, fields = [], confirm, danger = false, work }) => {
  const fault = h('p', { class: 'fault', role: 'alert' });
  const cancel = h('button', { type: 'button', class: 'quiet' }, 'Cancel');
  const go = h('button', { type: 'submit', class: danger ? 'danger' : 'primary' }, confirm);
  const form = h(
    'form',
    { method: 'dialog' },
    h('h2', {}, title),
    text && h('p', {}, text),
    fields,
    fault,
    h('div', { class: 'actions' }, cancel, go),
  );
  const dialog = h('dialog', { 'aria-label': title }, form);
  document.body.append(dialog);
  return new Promise((resolve) => {
    let done = false;
    cancel.addEventListener('click', () => dialog.close());
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(done);
    });
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      go.disabled = true;
      try {
        await work(new FormData(form), (message) => (fault.textContent = message));
        done = true;
        dialog.close();
      } catch (error) {
        fault.textContent = inWords(error);
        go.disabled = false;
        if (!(error instanceof CallError)) throw error;
      }
    });
    dialog.showModal();
  });
};

/** A labelled field of a form. */
export const field = (label, input, hint) =>
  h('label', { class: 'field' }, h('span', {}, label), input, hint && h('small', {}, hint));
