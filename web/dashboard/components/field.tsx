import { type ReactNode, useId } from 'react';
import { faultAt } from '../client/faults.ts';

interface Given {
  readonly 'aria-invalid'?: true;
  readonly 'aria-describedby'?: string;
}

interface FieldProps {
  readonly label: ReactNode;
  /** The path of the field in errors of the API. */
  readonly at: string;
  readonly error: unknown;
  /** The control, with what says that it is wrong. */
  readonly children: (given: Given) => ReactNode;
}

/** A labelled control with what the API says against its value. */
export const Field = ({ label, at, error, children }: FieldProps) => {
  const id = useId();
  const fault = faultAt(error, at);
  return (
    <>
      <label>
        {label}
        {children(fault === null ? {} : { 'aria-invalid': true, 'aria-describedby': id })}
      </label>
      {fault !== null && (
        <p id={id} className="bad">
          {fault}
        </p>
      )}
    </>
  );
};

interface FaultProps {
  readonly at: string;
  readonly error: unknown;
}

/** The words of the API against something that has several controls. */
export const FaultAt = ({ at, error }: FaultProps) => {
  const fault = faultAt(error, at);
  return fault === null ? null : <p className="bad">{fault}</p>;
};
