import { type FormEvent, useState } from 'react';
import { encode } from 'uqr';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { whenOf } from '../../client/when.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';

const stale = [['my-factors'], ['my-sessions']];

/** A QR code of squares, dark on white in both themes, as cameras read it. */
const QrCode = ({ text }: { readonly text: string }) => {
  const { data, size } = encode(text, { border: 2 });
  const path = data.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : ''))).join('');
  return (
    <svg className="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label="QR code for your authenticator app">
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
};

const AskPassword = ({
  onMade,
  onClose,
}: {
  readonly onMade: (made: NewFactor) => void;
  readonly onClose: () => void;
}) => {
  const make = useChange((password: string) => call('POST /auth/factors', { body: { password } }), {
    stale: [],
    onDone: ({ id, secret = '', uri = '' }) => onMade({ id, secret, uri }),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    make.mutate(fieldOf(event.currentTarget, 'password'));
  };
  return (
    <form onSubmit={submit}>
      <label>
        Password
        <input name="password" type="password" required maxLength={128} autoComplete="current-password" />
      </label>
      {make.error && <Failure error={make.error} />}
      <p className="row end">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="submit" className="primary" disabled={make.isPending}>
          Go on
        </button>
      </p>
    </form>
  );
};

interface NewFactor {
  readonly id: string;
  readonly secret: string;
  readonly uri: string;
}

const AskCode = ({
  made,
  onDone,
  onClose,
}: {
  readonly made: NewFactor;
  readonly onDone: (codes: readonly string[]) => void;
  readonly onClose: () => void;
}) => {
  const verify = useChange(
    (code: string) => call('POST /auth/factors/{id}/verify', { params: { id: made.id }, body: { code } }),
    { stale, onDone: ({ recovery_codes: codes = [] }) => onDone(codes) },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    verify.mutate(fieldOf(event.currentTarget, 'code'));
  };
  return (
    <form onSubmit={submit}>
      <p>Scan this with an authenticator app, or type the secret there.</p>
      <QrCode text={made.uri} />
      <Copyable label="Secret" text={made.secret} />
      <label>
        Code that the app shows
        <input name="code" required inputMode="numeric" autoComplete="one-time-code" />
      </label>
      {verify.error && <Failure error={verify.error} />}
      <p className="row end">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="submit" className="primary" disabled={verify.isPending}>
          Turn it on
        </button>
      </p>
    </form>
  );
};

const SetUp = ({ onClose }: { readonly onClose: () => void }) => {
  const [made, setMade] = useState<NewFactor | null>(null);
  const [codes, setCodes] = useState<readonly string[] | null>(null);
  return (
    <Dialog title="Set up a second factor" onClose={onClose}>
      {codes !== null && (
        <>
          <p>
            It is on. These recovery codes are shown once; each works once in the place of a code, should the app be
            lost:
          </p>
          <Copyable label="Recovery codes" text={codes.join('\n')} />
          <p className="row end">
            <button type="button" className="primary" onClick={onClose}>
              I have saved them
            </button>
          </p>
        </>
      )}
      {codes === null && made === null && <AskPassword onMade={setMade} onClose={onClose} />}
      {codes === null && made !== null && <AskCode made={made} onDone={setCodes} onClose={onClose} />}
    </Dialog>
  );
};

const Remove = ({ id, onClose }: { readonly id: string; readonly onClose: () => void }) => {
  const remove = useChange(
    (body: { readonly password: string; readonly code: string }) =>
      call('DELETE /auth/factors/{id}', { params: { id }, body }),
    { stale, onDone: onClose },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    remove.mutate({ password: fieldOf(form, 'password'), code: fieldOf(form, 'code') });
  };
  return (
    <Dialog title="Remove the second factor?" onClose={onClose}>
      <form onSubmit={submit}>
        <p>From then on the password alone signs in.</p>
        <label>
          Password
          <input name="password" type="password" required maxLength={128} autoComplete="current-password" />
        </label>
        <label>
          Code or recovery code
          <input name="code" required autoComplete="one-time-code" />
        </label>
        {remove.error && <Failure error={remove.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="danger" disabled={remove.isPending}>
            Remove it
          </button>
        </p>
      </form>
    </Dialog>
  );
};

interface SecondFactorProps {
  /** Null: there is none that counts. */
  readonly factor: { readonly id: string; readonly verified_at: string | null } | null;
  readonly codesLeft: number;
}

/** The second factor of the account. */
export const SecondFactor = ({ factor, codesLeft }: SecondFactorProps) => {
  const [opened, setOpened] = useState<'set-up' | 'remove' | null>(null);
  const close = (): void => setOpened(null);
  return (
    <>
      {factor === null ? (
        <p>
          None: the password alone signs in.{' '}
          <button type="button" onClick={() => setOpened('set-up')}>
            Set up an authenticator app
          </button>
        </p>
      ) : (
        <p>
          An authenticator app, since {whenOf(factor.verified_at)}. {codesLeft} recovery codes are left.{' '}
          <button type="button" onClick={() => setOpened('remove')}>
            Remove it
          </button>
        </p>
      )}
      {opened === 'set-up' && <SetUp onClose={close} />}
      {opened === 'remove' && factor !== null && <Remove id={factor.id} onClose={close} />}
    </>
  );
};
