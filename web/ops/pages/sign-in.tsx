import { useEffect, useRef } from 'react';
import { fieldOf } from '../../dashboard/client/form.ts';
import { SignInForm } from '../../dashboard/components/sign-in-form.tsx';
import { call } from '../client/api.ts';

/** The form that exchanges the operators' token for a session. */
export const SignInPage = ({ onSignedIn }: { readonly onSignedIn: () => Promise<void> }) => {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = 'Sign in · plinth operations';
    input.current?.focus();
  }, []);
  const enter = async (form: HTMLFormElement): Promise<void> => {
    try {
      await call('POST /ops/session', { body: { token: fieldOf(form, 'token') } });
    } catch (error) {
      input.current?.select();
      throw error;
    }
    await onSignedIn();
  };
  return (
    <SignInForm title="Operators only" action="Sign in" enter={enter}>
      <p className="muted">
        The token was printed when this installation first started; it is the setting <code>PLINTH_OPS_TOKEN</code>.
      </p>
      <label>
        Token
        <input ref={input} name="token" type="password" autoComplete="current-password" spellCheck={false} required />
      </label>
    </SignInForm>
  );
};
