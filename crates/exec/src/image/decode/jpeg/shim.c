/* JPEGs and regions of them through libjpeg-turbo, for plain ones with its entropy decoder replaced by the caller's.
 *
 * All steps that make pixels (inverse DCT, upsampling, colours, skipping around a region) are libjpeg-turbo's own, so
 * that the bits are, too. For a plain file only the coefficients of each MCU come from the caller's `decode_mcu`,
 * through the function pointer that libjpeg-turbo itself calls.
 *
 * A decoder decodes one image and is freed: tables, an error and a half read file cannot reach the next image.
 * As in Pillow, warnings are counted and do not stop libjpeg-turbo: damaged entropy coded data is decoded as far as
 * possible. Data that ends before the pixels do is an error.
 *
 * longjmp leaves frames of this file and of libjpeg-turbo only: a callback returns, and never calls back.
 */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

/* The layout below is that of jpegint.h, which is not installed. */
#if LIBJPEG_TURBO_VERSION_NUMBER < 3000000 || LIBJPEG_TURBO_VERSION_NUMBER >= 3002000
#error "check struct jpeg_entropy_decoder in jpegint.h of this libjpeg-turbo"
#endif
struct entropy_decoder {
  void (*start_pass)(j_decompress_ptr);
  boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW *);
};

/* The most scans of a file: each is a pass over all pixels, and a small file can hold very many. */
#define SCANS_MAX 500

struct forebay_jpeg_info {
  uint32_t width, height;
  uint32_t mcu_width, mcu_height;
  /* Channels of the colours of the file: 1 for grey, 3, or 4 for CMYK. */
  uint32_t channels;
  /* Whether `forebay_jpeg_region` accepts a caller's entropy decoder, and whether it accepts regions. */
  uint32_t plain, regions;
  /* Whether pixels come in several scans, which are all read before the first pixel. */
  uint32_t scans;
  uint32_t restart_interval;
  /* Where the coded pixels begin. */
  uint64_t coded_at;
};

/* The input of an entropy decoder. */
struct forebay_jpeg_scan {
  const uint8_t *data;
  size_t len;
  uint32_t mcus_per_row, restart_interval;
  uint32_t first_mcu, last_mcu;
  uint32_t blocks;
  struct {
    uint8_t component, dc, ac;
  } block[D_MAX_BLOCKS_IN_MCU];
  /* Numbers of codes by length (from 1) and symbols of the DC and the AC tables; NULL where there is none. */
  const uint8_t *bits[2][NUM_HUFF_TBLS], *symbols[2][NUM_HUFF_TBLS];
};

typedef int (*forebay_begin)(void *, const struct forebay_jpeg_scan *);
typedef int (*forebay_decode_mcu)(void *, JBLOCKROW *);

struct forebay_jpeg {
  struct jpeg_decompress_struct cinfo;
  struct jpeg_error_mgr errors;
  struct jpeg_source_mgr source;
  struct jpeg_progress_mgr progress;
  jmp_buf give_up;
  forebay_decode_mcu decode_mcu;
  void *state;
  int truncated;
  char message[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr cinfo) {
  struct forebay_jpeg *jpeg = cinfo->client_data;
  cinfo->err->format_message(cinfo, jpeg->message);
  longjmp(jpeg->give_up, 1);
}

static void fail(struct forebay_jpeg *jpeg, const char *message) {
  snprintf(jpeg->message, sizeof jpeg->message, "%s", message);
  longjmp(jpeg->give_up, 1);
}

static void on_message(j_common_ptr cinfo, int level) {
  if (level < 0) cinfo->err->num_warnings++;
}

static void say_nothing(j_common_ptr cinfo) {
  (void)cinfo;
}

static void count_scans(j_common_ptr cinfo) {
  if (((j_decompress_ptr)cinfo)->input_scan_number > SCANS_MAX) fail(cinfo->client_data, "it has more than 500 scans");
}

static void do_nothing(j_decompress_ptr cinfo) {
  (void)cinfo;
}

static boolean at_end(j_decompress_ptr cinfo) {
  struct forebay_jpeg *jpeg = cinfo->client_data;
  jpeg->truncated = 1;
  fail(jpeg, "its data ends before its pixels do");
  return FALSE;
}

static void skip(j_decompress_ptr cinfo, long n) {
  struct jpeg_source_mgr *source = cinfo->src;
  if (n <= 0) return;
  if ((size_t)n > source->bytes_in_buffer) n = (long)source->bytes_in_buffer;
  source->next_input_byte += n;
  source->bytes_in_buffer -= (size_t)n;
}

static boolean decode_mcu(j_decompress_ptr cinfo, JBLOCKROW *blocks) {
  struct forebay_jpeg *jpeg = cinfo->client_data;
  if (!jpeg->decode_mcu(jpeg->state, blocks)) longjmp(jpeg->give_up, 1);
  return TRUE;
}

void forebay_jpeg_free(struct forebay_jpeg *jpeg) {
  if (jpeg) jpeg_destroy_decompress(&jpeg->cinfo);
  free(jpeg);
}

static int create(struct forebay_jpeg *jpeg) {
  struct jpeg_decompress_struct *c = &jpeg->cinfo;
  c->err = jpeg_std_error(&jpeg->errors);
  jpeg->errors.error_exit = on_error;
  jpeg->errors.emit_message = on_message;
  jpeg->errors.output_message = say_nothing;
  jpeg->source.init_source = do_nothing;
  jpeg->source.fill_input_buffer = at_end;
  jpeg->source.skip_input_data = skip;
  jpeg->source.resync_to_restart = jpeg_resync_to_restart;
  jpeg->source.term_source = do_nothing;
  jpeg->progress.progress_monitor = count_scans;
  c->client_data = jpeg;
  if (setjmp(jpeg->give_up)) return 0;
  jpeg_create_decompress(c);
  c->src = &jpeg->source;
  c->progress = &jpeg->progress;
  return 1;
}

/* Returns NULL when there is no memory. */
struct forebay_jpeg *forebay_jpeg_new(void) {
  struct forebay_jpeg *jpeg = calloc(1, sizeof *jpeg);
  if (jpeg && create(jpeg)) return jpeg;
  forebay_jpeg_free(jpeg);
  return NULL;
}

/* Returns the message of a failure, and in `truncated` whether the data ends too soon. */
const char *forebay_jpeg_message(const struct forebay_jpeg *jpeg, int *truncated) {
  *truncated = jpeg->truncated;
  return jpeg->message;
}

/* The subsamplings whose regions libjpeg-turbo decodes exactly: 4:4:4, 4:2:2, 4:2:0, 4:4:0, 4:1:1, 4:4:1; of CMYK too. */
static int is_usual(const struct jpeg_decompress_struct *c) {
  int h = c->max_h_samp_factor, v = c->max_v_samp_factor;
  if (c->num_components == 1) return 1;
  if (c->num_components != 3 && c->num_components != 4) return 0;
  if (!((h <= 2 && v <= 2) || (h == 4 && v == 1) || (h == 1 && v == 4))) return 0;
  for (int i = 0; i < c->num_components; i++) {
    const jpeg_component_info *of = &c->comp_info[i];
    int is_full = i == 0 || i == 3;
    if (of->h_samp_factor != (is_full ? h : 1) || of->v_samp_factor != (is_full ? v : 1)) return 0;
  }
  return 1;
}

static int is_plain(const struct jpeg_decompress_struct *c) {
  if (c->progressive_mode || c->arith_code || c->data_precision != 8) return 0;
  if (c->Ss != 0 || c->Se != DCTSIZE2 - 1 || c->Ah != 0 || c->Al != 0) return 0;
  if (c->comps_in_scan != c->num_components || !is_usual(c)) return 0;
  if (c->num_components == 1)
    return c->jpeg_color_space == JCS_GRAYSCALE && c->max_h_samp_factor == 1 && c->max_v_samp_factor == 1;
  return c->num_components == 3 && (c->jpeg_color_space == JCS_YCbCr || c->jpeg_color_space == JCS_RGB);
}

static uint32_t channels(const struct jpeg_decompress_struct *c) {
  if (c->jpeg_color_space == JCS_GRAYSCALE) return 1;
  return c->jpeg_color_space == JCS_CMYK || c->jpeg_color_space == JCS_YCCK ? 4 : 3;
}

/* Reads the header. `bytes` must live as long as the decoder. */
int forebay_jpeg_open(struct forebay_jpeg *jpeg, const uint8_t *bytes, size_t len, struct forebay_jpeg_info *info) {
  struct jpeg_decompress_struct *c = &jpeg->cinfo;
  if (setjmp(jpeg->give_up)) return 0;
  jpeg->source.next_input_byte = bytes;
  jpeg->source.bytes_in_buffer = len;
  jpeg_read_header(c, TRUE);
  info->width = c->image_width;
  info->height = c->image_height;
  info->mcu_width = DCTSIZE * c->max_h_samp_factor;
  info->mcu_height = DCTSIZE * c->max_v_samp_factor;
  info->channels = channels(c);
  info->plain = is_plain(c);
  info->regions = is_usual(c);
  info->scans = jpeg_has_multiple_scans(c);
  info->restart_interval = c->restart_interval;
  info->coded_at = len - jpeg->source.bytes_in_buffer;
  return 1;
}

static void describe(const struct jpeg_decompress_struct *c, uint32_t x, uint32_t width, struct forebay_jpeg_scan *scan) {
  uint32_t mcu_width = DCTSIZE * c->max_h_samp_factor;
  scan->data = c->src->next_input_byte;
  scan->len = c->src->bytes_in_buffer;
  scan->mcus_per_row = c->MCUs_per_row;
  scan->restart_interval = c->restart_interval;
  scan->first_mcu = x / mcu_width;
  scan->last_mcu = (x + width - 1) / mcu_width;
  scan->blocks = c->blocks_in_MCU;
  for (int i = 0; i < c->blocks_in_MCU; i++) {
    int component = c->MCU_membership[i];
    scan->block[i].component = component;
    scan->block[i].dc = c->cur_comp_info[component]->dc_tbl_no;
    scan->block[i].ac = c->cur_comp_info[component]->ac_tbl_no;
  }
  for (int i = 0; i < NUM_HUFF_TBLS; i++) {
    const JHUFF_TBL *tables[2] = {c->dc_huff_tbl_ptrs[i], c->ac_huff_tbl_ptrs[i]};
    for (int of = 0; of < 2; of++) {
      scan->bits[of][i] = tables[of] ? tables[of]->bits + 1 : NULL;
      scan->symbols[of][i] = tables[of] ? tables[of]->huffval : NULL;
    }
  }
}

/* Whether scans are missing that would make coefficients exact: libjpeg-turbo then smooths across blocks, and the edges
 * of a region would be visible. */
static int is_rough(const struct jpeg_decompress_struct *c) {
  if (!c->progressive_mode || !c->coef_bits) return 0;
  for (int component = 0; component < c->num_components; component++)
    for (int k = 0; k < DCTSIZE2; k++)
      if (c->coef_bits[component][k] != 0) return 1;
  return 0;
}

static void read_rows(struct jpeg_decompress_struct *c, uint32_t y, uint32_t width, uint32_t height, uint8_t *out) {
  size_t row = (size_t)width * (size_t)c->out_color_components;
  while (c->output_scanline < y + height) {
    JSAMPROW rows[8];
    JDIMENSION n = y + height - c->output_scanline;
    if (n > 8) n = 8;
    for (JDIMENSION i = 0; i < n; i++) rows[i] = out + (c->output_scanline - y + i) * row;
    jpeg_read_scanlines(c, rows, n);
  }
}

/* Reads to the end of the file as Pillow does: a damaged marker is an error, and data that ends here is not. */
static int finish(struct forebay_jpeg *jpeg) {
  if (setjmp(jpeg->give_up)) return jpeg->truncated;
  jpeg_finish_decompress(&jpeg->cinfo);
  return 1;
}

enum { FAILED, EXACT, DAMAGED };

/* Decodes a region of the image that was opened, rows without gaps, in `channels` (1, 3 or 4), once. `x` is a multiple of
 * the MCU's width. `state` is the caller's entropy decoder, or NULL for libjpeg-turbo's own.
 *
 * Returns DAMAGED after warnings: the pixels of a whole image are then right, those of a region may be wrong. */
int forebay_jpeg_region(struct forebay_jpeg *jpeg, uint32_t x, uint32_t y, uint32_t width, uint32_t height, int channels,
                        uint8_t *out, void *state, forebay_begin begin, forebay_decode_mcu decode) {
  struct jpeg_decompress_struct *c = &jpeg->cinfo;
  if (setjmp(jpeg->give_up)) return FAILED;
  jpeg->errors.num_warnings = 0;
  c->out_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_start_decompress(c);
  int is_whole = width == c->output_width && height == c->output_height;
  if (!is_whole && (jpeg->errors.num_warnings > 0 || is_rough(c))) return DAMAGED;
  if (c->out_color_components != channels) fail(jpeg, "its colours are unknown");
  if (state) {
    struct forebay_jpeg_scan scan;
    describe(c, x, width, &scan);
    if (!begin(state, &scan)) return DAMAGED;
    jpeg->state = state;
    jpeg->decode_mcu = decode;
    ((struct entropy_decoder *)c->entropy)->decode_mcu = decode_mcu;
  }
  if (!is_whole) {
    JDIMENSION crop_x = x, crop_width = width;
    jpeg_crop_scanline(c, &crop_x, &crop_width);
    if (crop_x != x || crop_width != width) fail(jpeg, "a region that libjpeg-turbo moved");
    if (y > 0 && jpeg_skip_scanlines(c, y) != y) fail(jpeg, "a region that libjpeg-turbo moved");
  }
  read_rows(c, y, width, height, out);
  if (is_whole && !state && !finish(jpeg)) return FAILED;
  return jpeg->errors.num_warnings > 0 ? DAMAGED : EXACT;
}
