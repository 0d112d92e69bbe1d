/** More came back than is taken. */
export class AnswerTooLarge extends Error {
  override readonly name = 'AnswerTooLarge';
}

export const tooMuch = (what: string): AnswerTooLarge =>
  new AnswerTooLarge(
    `The statement answers ${what}. Add LIMIT to it, or ask for fewer columns; changes that it made itself may have been kept.`,
  );
