binding.cpp.o: binding.cpp /usr/include/stdc-predef.h \
 /work/main/src/opsmith/include/opsmith/native_binding.h \
 /usr/include/c++/12/optional /usr/include/c++/12/type_traits \
 /usr/include/x86_64-linux-gnu/c++/12/bits/c++config.h \
 /usr/include/x86_64-linux-gnu/c++/12/bits/os_defines.h \
 /usr/include/features.h /usr/include/features-time64.h \
 /usr/include/x86_64-linux-gnu/bits/wordsize.h \
 /usr/include/x86_64-linux-gnu/bits/timesize.h \
 /usr/include/x86_64-linux-gnu/sys/cdefs.h \
 /usr/include/x86_64-linux-gnu/bits/long-double.h \
 /usr/include/x86_64-linux-gnu/gnu/stubs.h \
 /usr/include/x86_64-linux-gnu/gnu/stubs-64.h \
 /usr/include/x86_64-linux-gnu/c++/12/bits/cpu_defines.h \
 /usr/include/c++/12/pstl/pstl_config.h /usr/include/c++/12/exception \
 /usr/include/c++/12/bits/exception.h \
 /usr/include/c++/12/bits/exception_ptr.h \
 /usr/include/c++/12/bits/exception_defines.h \
 /usr/include/c++/12/bits/cxxabi_init_exception.h \
 /usr/lib/gcc/x86_64-linux-gnu/12/include/stddef.h \
 /usr/include/c++/12/typeinfo /usr/include/c++/12/bits/hash_bytes.h \
 /usr/include/c++/12/new /usr/include/c++/12/bits/move.h \
 /usr/include/c++/12/bits/nested_exception.h \
 /usr/include/c++/12/initializer_list \
 /usr/include/c++/12/bits/enable_special_members.h \
 /usr/include/c++/12/bits/functional_hash.h \
 /usr/include/c++/12/bits/stl_construct.h \
 /usr/include/c++/12/bits/stl_iterator_base_types.h \
 /usr/include/c++/12/bits/stl_iterator_base_funcs.h \
 /usr/include/c++/12/bits/concept_check.h \
 /usr/include/c++/12/debug/assertions.h \
 /usr/include/c++/12/bits/utility.h /usr/include/c++/12/stdexcept \
 /usr/include/c++/12/string /usr/include/c++/12/bits/stringfwd.h \
 /usr/include/c++/12/bits/memoryfwd.h \
 /usr/include/c++/12/bits/char_traits.h \
 /usr/include/c++/12/bits/postypes.h /usr/include/c++/12/cwchar \
 /usr/include/wchar.h \
 /usr/include/x86_64-linux-gnu/bits/libc-header-start.h \
 /usr/include/x86_64-linux-gnu/bits/floatn.h \
 /usr/include/x86_64-linux-gnu/bits/floatn-common.h \
 /usr/lib/gcc/x86_64-linux-gnu/12/include/stdarg.h \
 /usr/include/x86_64-linux-gnu/bits/wchar.h \
 /usr/include/x86_64-linux-gnu/bits/types/wint_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/mbstate_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/__mbstate_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/__FILE.h \
 /usr/include/x86_64-linux-gnu/bits/types/FILE.h \
 /usr/include/x86_64-linux-gnu/bits/types/locale_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/__locale_t.h \
 /usr/include/c++/12/cstdint \
 /usr/lib/gcc/x86_64-linux-gnu/12/include/stdint.h /usr/include/stdint.h \
 /usr/include/x86_64-linux-gnu/bits/types.h \
 /usr/include/x86_64-linux-gnu/bits/typesizes.h \
 /usr/include/x86_64-linux-gnu/bits/time64.h \
 /usr/include/x86_64-linux-gnu/bits/stdint-intn.h \
 /usr/include/x86_64-linux-gnu/bits/stdint-uintn.h \
 /usr/include/c++/12/bits/allocator.h \
 /usr/include/x86_64-linux-gnu/c++/12/bits/c++allocator.h \
 /usr/include/c++/12/bits/new_allocator.h \
 /usr/include/c++/12/bits/functexcept.h \
 /usr/include/c++/12/bits/cpp_type_traits.h \
 /usr/include/c++/12/bits/localefwd.h \
 /usr/include/x86_64-linux-gnu/c++/12/bits/c++locale.h \
 /usr/include/c++/12/clocale /usr/include/locale.h \
 /usr/include/x86_64-linux-gnu/bits/locale.h /usr/include/c++/12/iosfwd \
 /usr/include/c++/12/cctype /usr/include/ctype.h \
 /usr/include/x86_64-linux-gnu/bits/endian.h \
 /usr/include/x86_64-linux-gnu/bits/endianness.h \
 /usr/include/c++/12/bits/ostream_insert.h \
 /usr/include/c++/12/bits/cxxabi_forced.h \
 /usr/include/c++/12/bits/stl_iterator.h \
 /usr/include/c++/12/ext/type_traits.h \
 /usr/include/c++/12/bits/ptr_traits.h \
 /usr/include/c++/12/bits/stl_function.h \
 /usr/include/c++/12/backward/binders.h \
 /usr/include/c++/12/ext/numeric_traits.h \
 /usr/include/c++/12/bits/stl_algobase.h \
 /usr/include/c++/12/bits/stl_pair.h /usr/include/c++/12/debug/debug.h \
 /usr/include/c++/12/bits/predefined_ops.h \
 /usr/include/c++/12/bits/refwrap.h /usr/include/c++/12/bits/invoke.h \
 /usr/include/c++/12/bits/range_access.h \
 /usr/include/c++/12/bits/basic_string.h \
 /usr/include/c++/12/ext/alloc_traits.h \
 /usr/include/c++/12/bits/alloc_traits.h /usr/include/c++/12/string_view \
 /usr/include/c++/12/bits/string_view.tcc \
 /usr/include/c++/12/ext/string_conversions.h /usr/include/c++/12/cstdlib \
 /usr/include/stdlib.h /usr/include/x86_64-linux-gnu/bits/waitflags.h \
 /usr/include/x86_64-linux-gnu/bits/waitstatus.h \
 /usr/include/x86_64-linux-gnu/sys/types.h \
 /usr/include/x86_64-linux-gnu/bits/types/clock_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/clockid_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/time_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/timer_t.h /usr/include/endian.h \
 /usr/include/x86_64-linux-gnu/bits/byteswap.h \
 /usr/include/x86_64-linux-gnu/bits/uintn-identity.h \
 /usr/include/x86_64-linux-gnu/sys/select.h \
 /usr/include/x86_64-linux-gnu/bits/select.h \
 /usr/include/x86_64-linux-gnu/bits/types/sigset_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/__sigset_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/struct_timeval.h \
 /usr/include/x86_64-linux-gnu/bits/types/struct_timespec.h \
 /usr/include/x86_64-linux-gnu/bits/pthreadtypes.h \
 /usr/include/x86_64-linux-gnu/bits/thread-shared-types.h \
 /usr/include/x86_64-linux-gnu/bits/pthreadtypes-arch.h \
 /usr/include/x86_64-linux-gnu/bits/atomic_wide_counter.h \
 /usr/include/x86_64-linux-gnu/bits/struct_mutex.h \
 /usr/include/x86_64-linux-gnu/bits/struct_rwlock.h /usr/include/alloca.h \
 /usr/include/x86_64-linux-gnu/bits/stdlib-bsearch.h \
 /usr/include/x86_64-linux-gnu/bits/stdlib-float.h \
 /usr/include/c++/12/bits/std_abs.h /usr/include/c++/12/cstdio \
 /usr/include/stdio.h /usr/include/x86_64-linux-gnu/bits/types/__fpos_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/__fpos64_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/struct_FILE.h \
 /usr/include/x86_64-linux-gnu/bits/types/cookie_io_functions_t.h \
 /usr/include/x86_64-linux-gnu/bits/stdio_lim.h \
 /usr/include/x86_64-linux-gnu/bits/stdio.h /usr/include/c++/12/cerrno \
 /usr/include/errno.h /usr/include/x86_64-linux-gnu/bits/errno.h \
 /usr/include/linux/errno.h /usr/include/x86_64-linux-gnu/asm/errno.h \
 /usr/include/asm-generic/errno.h /usr/include/asm-generic/errno-base.h \
 /usr/include/x86_64-linux-gnu/bits/types/error_t.h \
 /usr/include/c++/12/bits/charconv.h \
 /usr/include/c++/12/bits/basic_string.tcc /usr/include/c++/12/tuple \
 /usr/include/c++/12/bits/uses_allocator.h /usr/include/c++/12/vector \
 /usr/include/c++/12/bits/stl_uninitialized.h \
 /usr/include/c++/12/bits/stl_vector.h \
 /usr/include/c++/12/bits/stl_bvector.h \
 /usr/include/c++/12/bits/vector.tcc \
 /work/main/src/opsmith/include/opsmith/tensor.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/accelerator.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/c/shim.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/inductor/aoti_torch/c/shim.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/inductor/aoti_torch/c/macros.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/inductor/aoti_torch/c/shim_deprecated.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/version.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/version.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/Exception.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/macros/Export.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/macros/cmake_macros.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/macros/Macros.h \
 /usr/include/c++/12/cassert /usr/include/assert.h \
 /usr/include/c++/12/sstream /usr/include/c++/12/istream \
 /usr/include/c++/12/ios /usr/include/c++/12/bits/ios_base.h \
 /usr/include/c++/12/ext/atomicity.h \
 /usr/include/x86_64-linux-gnu/c++/12/bits/gthr.h \
 /usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h \
 /usr/include/pthread.h /usr/include/sched.h \
 /usr/include/x86_64-linux-gnu/bits/sched.h \
 /usr/include/x86_64-linux-gnu/bits/types/struct_sched_param.h \
 /usr/include/x86_64-linux-gnu/bits/cpu-set.h /usr/include/time.h \
 /usr/include/x86_64-linux-gnu/bits/time.h \
 /usr/include/x86_64-linux-gnu/bits/timex.h \
 /usr/include/x86_64-linux-gnu/bits/types/struct_tm.h \
 /usr/include/x86_64-linux-gnu/bits/types/struct_itimerspec.h \
 /usr/include/x86_64-linux-gnu/bits/setjmp.h \
 /usr/include/x86_64-linux-gnu/bits/types/struct___jmp_buf_tag.h \
 /usr/include/x86_64-linux-gnu/bits/pthread_stack_min-dynamic.h \
 /usr/include/x86_64-linux-gnu/c++/12/bits/atomic_word.h \
 /usr/include/x86_64-linux-gnu/sys/single_threaded.h \
 /usr/include/c++/12/bits/locale_classes.h \
 /usr/include/c++/12/bits/locale_classes.tcc \
 /usr/include/c++/12/system_error \
 /usr/include/x86_64-linux-gnu/c++/12/bits/error_constants.h \
 /usr/include/c++/12/streambuf /usr/include/c++/12/bits/streambuf.tcc \
 /usr/include/c++/12/bits/basic_ios.h \
 /usr/include/c++/12/bits/locale_facets.h /usr/include/c++/12/cwctype \
 /usr/include/wctype.h /usr/include/x86_64-linux-gnu/bits/wctype-wchar.h \
 /usr/include/x86_64-linux-gnu/c++/12/bits/ctype_base.h \
 /usr/include/c++/12/bits/streambuf_iterator.h \
 /usr/include/x86_64-linux-gnu/c++/12/bits/ctype_inline.h \
 /usr/include/c++/12/bits/locale_facets.tcc \
 /usr/include/c++/12/bits/basic_ios.tcc /usr/include/c++/12/ostream \
 /usr/include/c++/12/bits/ostream.tcc \
 /usr/include/c++/12/bits/istream.tcc \
 /usr/include/c++/12/bits/sstream.tcc \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/BFloat16.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/bit_cast.h \
 /usr/include/c++/12/cstring /usr/include/string.h /usr/include/strings.h \
 /usr/include/c++/12/cmath /usr/include/math.h \
 /usr/include/x86_64-linux-gnu/bits/math-vector.h \
 /usr/include/x86_64-linux-gnu/bits/libm-simd-decl-stubs.h \
 /usr/include/x86_64-linux-gnu/bits/flt-eval-method.h \
 /usr/include/x86_64-linux-gnu/bits/fp-logb.h \
 /usr/include/x86_64-linux-gnu/bits/fp-fast.h \
 /usr/include/x86_64-linux-gnu/bits/mathcalls-helper-functions.h \
 /usr/include/x86_64-linux-gnu/bits/mathcalls.h \
 /usr/include/x86_64-linux-gnu/bits/mathcalls-narrow.h \
 /usr/include/x86_64-linux-gnu/bits/iscanonical.h \
 /usr/include/c++/12/bits/specfun.h /usr/include/c++/12/limits \
 /usr/include/c++/12/tr1/gamma.tcc \
 /usr/include/c++/12/tr1/special_function_util.h \
 /usr/include/c++/12/tr1/bessel_function.tcc \
 /usr/include/c++/12/tr1/beta_function.tcc \
 /usr/include/c++/12/tr1/ell_integral.tcc \
 /usr/include/c++/12/tr1/exp_integral.tcc \
 /usr/include/c++/12/tr1/hypergeometric.tcc \
 /usr/include/c++/12/tr1/legendre_function.tcc \
 /usr/include/c++/12/tr1/modified_bessel_func.tcc \
 /usr/include/c++/12/tr1/poly_hermite.tcc \
 /usr/include/c++/12/tr1/poly_laguerre.tcc \
 /usr/include/c++/12/tr1/riemann_zeta.tcc \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/Float8_e4m3fn.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/floating_point_utils.h \
 /usr/include/c++/12/climits \
 /usr/lib/gcc/x86_64-linux-gnu/12/include/limits.h \
 /usr/lib/gcc/x86_64-linux-gnu/12/include/syslimits.h \
 /usr/include/limits.h /usr/include/x86_64-linux-gnu/bits/posix1_lim.h \
 /usr/include/x86_64-linux-gnu/bits/local_lim.h \
 /usr/include/linux/limits.h \
 /usr/include/x86_64-linux-gnu/bits/posix2_lim.h \
 /usr/include/x86_64-linux-gnu/bits/xopen_lim.h \
 /usr/include/x86_64-linux-gnu/bits/uio_lim.h \
 /usr/include/c++/12/iostream \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/Float8_e4m3fnuz.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/Float8_fnuz_cvt.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/Float8_e5m2.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/Half.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/Float8_e5m2fnuz.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/TypeSafeSignMath.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/complex.h \
 /usr/include/c++/12/complex \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/macros.h \
 /usr/include/c++/12/iomanip /usr/include/c++/12/locale \
 /usr/include/c++/12/bits/locale_facets_nonio.h /usr/include/c++/12/ctime \
 /usr/include/x86_64-linux-gnu/c++/12/bits/time_members.h \
 /usr/include/x86_64-linux-gnu/c++/12/bits/messages_members.h \
 /usr/include/libintl.h /usr/include/c++/12/bits/codecvt.h \
 /usr/include/c++/12/bits/locale_facets_nonio.tcc \
 /usr/include/c++/12/bits/locale_conv.h \
 /usr/include/c++/12/bits/quoted_string.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/shim_utils.h \
 /usr/include/c++/12/memory /usr/include/c++/12/bits/stl_tempbuf.h \
 /usr/include/c++/12/bits/stl_raw_storage_iter.h \
 /usr/include/c++/12/bits/align.h /usr/include/c++/12/bit \
 /usr/include/c++/12/bits/unique_ptr.h \
 /usr/include/c++/12/bits/shared_ptr.h \
 /usr/include/c++/12/bits/shared_ptr_base.h \
 /usr/include/c++/12/bits/allocated_ptr.h \
 /usr/include/c++/12/ext/aligned_buffer.h \
 /usr/include/c++/12/ext/concurrence.h \
 /usr/include/c++/12/bits/shared_ptr_atomic.h \
 /usr/include/c++/12/bits/atomic_base.h \
 /usr/include/c++/12/bits/atomic_lockfree_defines.h \
 /usr/include/c++/12/backward/auto_ptr.h \
 /usr/include/c++/12/pstl/glue_memory_defs.h \
 /usr/include/c++/12/pstl/execution_defs.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/library.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/core/enum_tag.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/Metaprogramming.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/TypeList.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/TypeTraits.h \
 /usr/include/c++/12/functional /usr/include/c++/12/bits/std_function.h \
 /usr/include/c++/12/unordered_map /usr/include/c++/12/bits/hashtable.h \
 /usr/include/c++/12/bits/hashtable_policy.h \
 /usr/include/c++/12/bits/node_handle.h \
 /usr/include/c++/12/bits/unordered_map.h \
 /usr/include/c++/12/bits/erase_if.h /usr/include/c++/12/array \
 /usr/include/c++/12/compare /usr/include/c++/12/bits/stl_algo.h \
 /usr/include/c++/12/bits/algorithmfwd.h \
 /usr/include/c++/12/bits/stl_heap.h \
 /usr/include/c++/12/bits/uniform_int_dist.h \
 /usr/include/c++/12/algorithm \
 /usr/include/c++/12/pstl/glue_algorithm_defs.h \
 /usr/include/c++/12/cstddef /usr/include/c++/12/utility \
 /usr/include/c++/12/bits/stl_relops.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/stableivalue_conversions.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/device_struct.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/core/DeviceType.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/generator_struct.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/tensor_struct.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/core/Layout.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/core/ScalarType.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/Float4_e2m1fn_x2.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/Float8_e8m0fnu.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/bits.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/qint32.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/qint8.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/quint2x4.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/quint4x2.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/quint8.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/HeaderOnlyArrayRef.h \
 /usr/include/c++/12/iterator /usr/include/c++/12/bits/stream_iterator.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/core/MemoryFormat.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/util/Deprecated.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/ops.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/tensor.h \
 /tmp/ci2/clone/.venv/lib/python3.11/site-packages/torch/include/torch/csrc/stable/tensor_inl.h \
 /work/main/src/opsmith/include/opsmith/error.h \
 /work/main/src/opsmith/include/opsmith/stream.h /usr/include/dlfcn.h \
 /usr/include/x86_64-linux-gnu/bits/dlfcn.h \
 /usr/include/x86_64-linux-gnu/bits/dl_find_object.h \
 /work/main/src/opsmith/include/opsmith/types.h \
 /work/main/src/opsmith/include/opsmith/host_device.h \
 /work/main/src/opsmith/include/opsmith/view.h \
 /work/main/src/opsmith/include/opsmith/optional.h \
 /work/main/src/opsmith/include/opsmith/binding.h \
 /work/main/src/opsmith/include/opsmith/arguments.h \
 /work/main/src/opsmith/include/opsmith/held.h \
 /work/main/src/opsmith/include/opsmith/shims.h \
 /work/main/src/opsmith/include/opsmith/torch_error.h \
 /work/main/src/opsmith/include/opsmith/checks.h \
 /work/main/src/opsmith/include/opsmith/sizes.h \
 /work/main/src/opsmith/include/opsmith/cpu.h \
 /work/main/src/opsmith/include/opsmith/atomic.h \
 /work/main/src/opsmith/include/opsmith/layout.h \
 /work/main/src/opsmith/include/opsmith/running.h /usr/include/signal.h \
 /usr/include/x86_64-linux-gnu/bits/signum-generic.h \
 /usr/include/x86_64-linux-gnu/bits/signum-arch.h \
 /usr/include/x86_64-linux-gnu/bits/types/sig_atomic_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/siginfo_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/__sigval_t.h \
 /usr/include/x86_64-linux-gnu/bits/siginfo-arch.h \
 /usr/include/x86_64-linux-gnu/bits/siginfo-consts.h \
 /usr/include/x86_64-linux-gnu/bits/siginfo-consts-arch.h \
 /usr/include/x86_64-linux-gnu/bits/types/sigval_t.h \
 /usr/include/x86_64-linux-gnu/bits/types/sigevent_t.h \
 /usr/include/x86_64-linux-gnu/bits/sigevent-consts.h \
 /usr/include/x86_64-linux-gnu/bits/sigaction.h \
 /usr/include/x86_64-linux-gnu/bits/sigcontext.h \
 /usr/include/x86_64-linux-gnu/bits/types/stack_t.h \
 /usr/include/x86_64-linux-gnu/sys/ucontext.h \
 /usr/include/x86_64-linux-gnu/bits/sigstack.h \
 /usr/include/x86_64-linux-gnu/bits/sigstksz.h /usr/include/unistd.h \
 /usr/include/x86_64-linux-gnu/bits/posix_opt.h \
 /usr/include/x86_64-linux-gnu/bits/environments.h \
 /usr/include/x86_64-linux-gnu/bits/confname.h \
 /usr/include/x86_64-linux-gnu/bits/getopt_posix.h \
 /usr/include/x86_64-linux-gnu/bits/getopt_core.h \
 /usr/include/x86_64-linux-gnu/bits/unistd_ext.h \
 /usr/include/linux/close_range.h \
 /usr/include/x86_64-linux-gnu/bits/ss_flags.h \
 /usr/include/x86_64-linux-gnu/bits/types/struct_sigstack.h \
 /usr/include/x86_64-linux-gnu/bits/sigthread.h \
 /usr/include/x86_64-linux-gnu/bits/signal_ext.h \
 /usr/include/x86_64-linux-gnu/sys/uio.h \
 /usr/include/x86_64-linux-gnu/bits/types/struct_iovec.h \
 /usr/include/x86_64-linux-gnu/bits/uio-ext.h \
 /work/main/src/opsmith/include/opsmith/workspace.h
