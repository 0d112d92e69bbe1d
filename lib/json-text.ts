/** An answer that is JSON already: it goes out as it is, numbers that JavaScript cannot hold included. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}
