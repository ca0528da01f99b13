/* Regions of baseline JPEGs through libjpeg-turbo, with its entropy decoder replaced by the caller's.
 *
 * Everything that makes pixels (inverse DCT, upsampling, colours, what a region leaves out) stays libjpeg-turbo's own,
 * so that the bits do. Only the coefficients of each MCU come from `decode_mcu`, by the function pointer that
 * libjpeg-turbo itself calls through. Whatever is unusual, and any error or warning, ends in a plain "no": the caller
 * then asks the TurboJPEG API, which says what is wrong.
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

struct forebay_jpeg_info {
  uint32_t width, height;
  uint32_t mcu_width, mcu_height;
  uint32_t grey;
};

/* What an entropy decoder has to know. */
struct forebay_jpeg_scan {
  const uint8_t *data;
  size_t len;
  uint32_t mcus_per_row, mcu_rows, restart_interval;
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
  jmp_buf give_up;
  forebay_decode_mcu decode_mcu;
  void *state;
};

static void on_error(j_common_ptr cinfo) {
  longjmp(((struct forebay_jpeg *)cinfo->client_data)->give_up, 1);
}

static void on_message(j_common_ptr cinfo, int level) {
  if (level < 0) on_error(cinfo);
}

static void say_nothing(j_common_ptr cinfo) {
  (void)cinfo;
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
  jpeg->cinfo.err = jpeg_std_error(&jpeg->errors);
  jpeg->errors.error_exit = on_error;
  jpeg->errors.emit_message = on_message;
  jpeg->errors.output_message = say_nothing;
  jpeg->cinfo.client_data = jpeg;
  if (setjmp(jpeg->give_up)) return 0;
  jpeg_create_decompress(&jpeg->cinfo);
  return 1;
}

struct forebay_jpeg *forebay_jpeg_new(void) {
  struct forebay_jpeg *jpeg = calloc(1, sizeof *jpeg);
  if (jpeg && create(jpeg)) return jpeg;
  forebay_jpeg_free(jpeg);
  return NULL;
}

static int is_plain(const struct jpeg_decompress_struct *c) {
  if (c->progressive_mode || c->arith_code || c->data_precision != 8) return 0;
  if (c->Ss != 0 || c->Se != DCTSIZE2 - 1 || c->Ah != 0 || c->Al != 0) return 0;
  if (c->comps_in_scan != c->num_components) return 0;
  int h = c->max_h_samp_factor, v = c->max_v_samp_factor;
  if (c->num_components == 1) return c->jpeg_color_space == JCS_GRAYSCALE && h == 1 && v == 1;
  if (c->num_components != 3) return 0;
  if (c->jpeg_color_space != JCS_YCbCr && c->jpeg_color_space != JCS_RGB) return 0;
  /* 4:4:4, 4:2:2, 4:2:0, 4:4:0, 4:1:1, 4:4:1 */
  if (!((h <= 2 && v <= 2) || (h == 4 && v == 1) || (h == 1 && v == 4))) return 0;
  const jpeg_component_info *of = c->comp_info;
  if (of[0].h_samp_factor != h || of[0].v_samp_factor != v) return 0;
  for (int i = 1; i < 3; i++)
    if (of[i].h_samp_factor != 1 || of[i].v_samp_factor != 1) return 0;
  return 1;
}

/* Reads the header. `bytes` must live until the next call of any of these functions. */
int forebay_jpeg_open(struct forebay_jpeg *jpeg, const uint8_t *bytes, size_t len, struct forebay_jpeg_info *info) {
  struct jpeg_decompress_struct *c = &jpeg->cinfo;
  if (setjmp(jpeg->give_up)) {
    jpeg_abort_decompress(c);
    return 0;
  }
  jpeg_abort_decompress(c);
  jpeg_mem_src(c, bytes, (unsigned long)len);
  if (jpeg_read_header(c, TRUE) != JPEG_HEADER_OK || !is_plain(c)) {
    jpeg_abort_decompress(c);
    return 0;
  }
  info->width = c->image_width;
  info->height = c->image_height;
  info->mcu_width = DCTSIZE * c->max_h_samp_factor;
  info->mcu_height = DCTSIZE * c->max_v_samp_factor;
  info->grey = c->jpeg_color_space == JCS_GRAYSCALE;
  return 1;
}

static void describe(const struct jpeg_decompress_struct *c, uint32_t x, uint32_t width, struct forebay_jpeg_scan *scan) {
  uint32_t mcu_width = DCTSIZE * c->max_h_samp_factor;
  scan->data = c->src->next_input_byte;
  scan->len = c->src->bytes_in_buffer;
  scan->mcus_per_row = c->MCUs_per_row;
  scan->mcu_rows = c->MCU_rows_in_scan;
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

/* Decodes a region of the image that was opened, rows without gaps, in one channel (`grey`) or three. `x` is a
 * multiple of the MCU's width. */
int forebay_jpeg_region(struct forebay_jpeg *jpeg, uint32_t x, uint32_t y, uint32_t width, uint32_t height, int grey,
                        uint8_t *out, void *state, forebay_begin begin, forebay_decode_mcu decode) {
  struct jpeg_decompress_struct *c = &jpeg->cinfo;
  if (setjmp(jpeg->give_up)) {
    jpeg_abort_decompress(c);
    return 0;
  }
  c->out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(c);
  struct forebay_jpeg_scan scan;
  describe(c, x, width, &scan);
  if (!begin(state, &scan)) on_error((j_common_ptr)c);
  jpeg->state = state;
  jpeg->decode_mcu = decode;
  ((struct entropy_decoder *)c->entropy)->decode_mcu = decode_mcu;
  JDIMENSION crop_x = x, crop_width = width;
  jpeg_crop_scanline(c, &crop_x, &crop_width);
  if (crop_x != x || crop_width != width) on_error((j_common_ptr)c);
  if (y > 0 && jpeg_skip_scanlines(c, y) != y) on_error((j_common_ptr)c);
  size_t row = (size_t)width * (grey ? 1 : 3);
  while (c->output_scanline < y + height) {
    JSAMPROW rows[8];
    JDIMENSION n = y + height - c->output_scanline;
    if (n > 8) n = 8;
    for (JDIMENSION i = 0; i < n; i++) rows[i] = out + (c->output_scanline - y + i) * row;
    jpeg_read_scanlines(c, rows, n);
  }
  jpeg_abort_decompress(c);
  return 1;
}
