import { CallFault } from '../../runtimes/runtime.ts';
import type { OpenService } from '../services.ts';
import { endedStep, namedStep, newWait, parsed } from './calls.ts';
import type { StepSession } from './session.ts';

/** `sdk.step`: what a run does once, however often its code runs. */
export const stepService: OpenService = ({ steps }) => {
  const session = (): StepSession => {
    if (steps === undefined) throw new CallFault('Error', 'There are no steps here.');
    return steps;
  };
  return {
    answers: {
      'step.begin': async () => session().begin(),
      'step.start': async (args) => session().start(parsed(namedStep, args).name),
      'step.end': async (args) => session().end(parsed(endedStep, args)),
      'step.wait': async (args) => session().wait(parsed(newWait, args)),
      'step.changed': async (args) => session().changed(parsed(namedStep, args).name),
      'step.suspend': async () => session().suspend(),
    },
    close: () => Promise.resolve(),
  };
};
