/** A text in which names stand between backticks, as the descriptions of the API have them. */
export const WithCode = ({ text }: { readonly text: string }) =>
  text.split('`').map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));
