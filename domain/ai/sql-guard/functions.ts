const words = (text: string): readonly string[] => text.trim().split(/\s+/);

/*
 * Functions of the server that change nothing, wait for nothing and reveal nothing but their arguments, the time and
 * chance. All others are refused: a list of harmful ones would have to know each server's and extension's. Those of
 * geometry are missing, and so are `repeat` and `array_fill`: a few words make them compute for minutes, and the server
 * cannot interrupt them.
 */

const text = words(`
  ascii bit_length btrim casefold char_length character_length chr concat concat_ws convert_from convert_to decode
  encode format initcap left length like_escape lower lpad ltrim md5 normalize octet_length overlay parse_ident position
  quote_ident quote_literal quote_nullable regexp_count regexp_instr regexp_like regexp_match regexp_matches
  regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr replace reverse right rpad rtrim sha224
  sha256 sha384 sha512 similar_to_escape split_part starts_with string_to_array string_to_table strpos substr substring
  text to_ascii to_hex translate upper unistr is_normalized bpchar varchar name`);

const numbers = words(`
  abs acos acosd acosh asin asind asinh atan atan2 atan2d atand atanh bit_count bool cbrt ceil ceiling cos cosd cosh cot
  cotd degrees div erf erfc exp factorial float4 float8 floor gamma gcd get_bit get_byte int2 int4 int8 lcm lgamma ln
  log log10 min_scale mod numeric pi power pow radians random random_normal round scale set_bit set_byte sign sin sind
  sinh sqrt tan tand tanh to_number trim_scale trunc width_bucket`);

const time = words(`
  age clock_timestamp date date_add date_bin date_part date_subtract date_trunc extract interval isfinite justify_days
  justify_hours justify_interval make_date make_interval make_time make_timestamp make_timestamptz now overlaps
  statement_timestamp time timetz timeofday timestamp timestamptz timezone to_char to_date to_timestamp
  transaction_timestamp`);

const ids = words(`gen_random_uuid uuidv4 uuidv7 uuid_extract_timestamp uuid_extract_version`);

const json = words(`
  array_to_json json_array_elements json_array_elements_text json_array_length json_build_array json_build_object
  json_each json_each_text json_extract_path json_extract_path_text json_object json_object_keys json_populate_record
  json_populate_recordset json_strip_nulls json_to_record json_to_recordset json_typeof jsonb_array_elements
  jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text
  jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_keys jsonb_path_exists
  jsonb_path_exists_tz jsonb_path_match jsonb_path_match_tz jsonb_path_query jsonb_path_query_array
  jsonb_path_query_array_tz jsonb_path_query_first jsonb_path_query_first_tz jsonb_path_query_tz jsonb_populate_record
  jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls jsonb_to_record jsonb_to_recordset
  jsonb_typeof row_to_json to_json to_jsonb`);

const arraysAndRanges = words(`
  array_append array_cat array_dims array_length array_lower array_ndims array_position array_positions array_prepend
  array_remove array_replace array_reverse array_sample array_shuffle array_sort array_to_string array_upper cardinality
  daterange datemultirange generate_series generate_subscripts int4multirange int4range int8multirange int8range isempty
  lower_inc lower_inf multirange nummultirange numrange range_merge trim_array tsmultirange tsrange tstzmultirange
  tstzrange unnest upper_inc upper_inf`);

const aggregatesAndWindows = words(`
  any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp cume_dist dense_rank
  every first_value json_agg json_object_agg jsonb_agg jsonb_object_agg lag last_value lead max min mode nth_value ntile
  percent_rank percentile_cont percentile_disc range_agg range_intersect_agg rank regr_avgx regr_avgy regr_count
  regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number stddev stddev_pop stddev_samp string_agg sum
  var_pop var_samp variance`);

const searchAndNetworks = words(`
  abbrev array_to_tsvector broadcast family host hostmask inet_merge inet_same_family masklen netmask network numnode
  phraseto_tsquery plainto_tsquery querytree set_masklen setweight strip to_tsquery to_tsvector ts_delete ts_filter
  ts_headline ts_rank ts_rank_cd tsquery_phrase tsvector_to_array websearch_to_tsquery`);

const other = words(`num_nonnulls num_nulls pg_typeof pg_size_pretty`);

/** Functions that a query may call; it runs once, in a session that can be cancelled. */
export const queryFunctions: ReadonlySet<string> = new Set([
  ...text,
  ...numbers,
  ...time,
  ...ids,
  ...json,
  ...arraysAndRanges,
  ...aggregatesAndWindows,
  ...searchAndNetworks,
  ...other,
]);

/**
 * Functions that a default, a check, an index or a policy may call: it stays in the database, and everybody's requests
 * run it. The list has only what such expressions commonly need, and nothing that expands small inputs or compares all
 * with all.
 */
export const storedFunctions: ReadonlySet<string> = new Set([
  ...words(`
    bpchar btrim char_length character_length concat concat_ws decode encode initcap is_normalized left length lower
    ltrim md5 name normalize octet_length right rtrim sha224 sha256 sha384 sha512 similar_to_escape starts_with substr
    substring text upper varchar`),
  ...words(`abs bool ceil ceiling div float4 float8 floor int2 int4 int8 mod numeric random round sign trunc`),
  ...time,
  ...ids,
  ...words(`
    json_array_elements json_array_elements_text json_array_length json_build_array json_build_object json_extract_path
    json_extract_path_text json_typeof jsonb_array_elements jsonb_array_elements_text jsonb_array_length
    jsonb_build_array jsonb_build_object jsonb_extract_path jsonb_extract_path_text jsonb_object_keys jsonb_typeof
    to_json to_jsonb`),
  ...words(`
    array_length array_lower array_ndims array_position array_remove array_upper cardinality daterange int4range
    int8range isempty lower_inc lower_inf numrange tsrange tstzrange unnest upper_inc upper_inf`),
  ...words(`any_value array_agg avg bool_and bool_or count every max min sum`),
  ...words(`
    family host masklen network phraseto_tsquery plainto_tsquery setweight to_tsquery to_tsvector websearch_to_tsquery`),
  ...words(`num_nonnulls num_nulls`),
]);

/** Functions by which policies read the request: the platform's helpers in schema auth, and the setting behind them. */
export const requestFunctions: ReadonlySet<string> = new Set([
  'auth.uid',
  'auth.jwt',
  'auth.role',
  'auth.email',
  'current_setting',
]);
