/*
 * assets.S - the script, the style and the charting library of the page, unchanged, with the hashes by which
 * the page's security policy admits them. The Makefile puts the files where .incbin finds them.
 */
    .macro asset name, file
    .global tide_asset_\name
    .global tide_asset_\name\()_len
tide_asset_\name:
    .incbin "\file"
9:
    .byte 0
    .balign 8
tide_asset_\name\()_len:
    .quad 9b - tide_asset_\name
    .endm

    .section .rodata
    asset d3, "d3.js"
    asset d3_hash, "d3.js.hash"
    asset d3_licence, "d3.licence"
    asset script, "report.js"
    asset script_hash, "report.js.hash"
    asset style, "report.css"
    asset style_hash, "report.css.hash"

    .section .note.GNU-stack,"",%progbits
