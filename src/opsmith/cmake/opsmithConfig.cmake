# find_package(opsmith): build operators and existing extension sources in CMake, with the commands of opsmith's own plan.
#
#   opsmith_add_operators(<target> <module or folder>
#       [DEVICES cpu cuda] [ARCHS 9.0 ...] [TORCH_TARGET 2.10] [DESTINATION <folder>])
#   opsmith_add_extension(<name> SOURCES <file> ... [MODULE | LIBRARY] [ARCHS 9.0 ...]
#       [CXX_FLAGS ...] [GPU_FLAGS ...] [LINK_FLAGS ...] [INCLUDE_DIRS ...] [DESTINATION <folder>])
#
# MODULE is what Python imports (PYBIND11_MODULE), LIBRARY what torch.ops.load_library loads (TORCH_LIBRARY); unless said,
# the sources decide.
#
# Both make a target that `all` includes and set <target>_LIBRARY to the library's path. opsmith_add_operators also makes
# opsmith::<target>, which a program in C++ links: its operators are then there by their names, without Python.
#
# torch, Python's headers, libtorch_python and nvcc are found by the Python that opsmith is installed in: the one of
# Python_EXECUTABLE, where that is set, else the first python3 that has opsmith. No find_package(Torch), no language to
# enable.

include_guard(GLOBAL)

if(NOT Python_EXECUTABLE)
  find_program(Python_EXECUTABLE NAMES python3 python REQUIRED)
endif()
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import opsmith; print(opsmith.__version__)"
  OUTPUT_VARIABLE opsmith_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_VARIABLE _opsmith_error RESULT_VARIABLE _opsmith_status)
if(NOT _opsmith_status EQUAL 0)
  set(opsmith_FOUND FALSE)
  set(opsmith_NOT_FOUND_MESSAGE
      "${Python_EXECUTABLE} cannot import opsmith; set Python_EXECUTABLE to a Python that can. ${_opsmith_error}")
  return()
endif()

# A library that registers operators as it is loaded has no symbol that is called: the linker must not leave it out.
set(CMAKE_LINK_LIBRARY_USING_opsmith_kept "LINKER:--push-state,--no-as-needed" "<LINK_ITEM>" "LINKER:--pop-state")
set(CMAKE_LINK_LIBRARY_USING_opsmith_kept_SUPPORTED TRUE)

# Ask opsmith for a CMakeLists.txt over its plan, and enter it.
function(_opsmith_enter command target destination)
  set(source "${CMAKE_CURRENT_BINARY_DIR}/opsmith/${target}.plan")
  set(binary "${CMAKE_CURRENT_BINARY_DIR}/opsmith/${target}")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m opsmith ${command} ${ARGN}
            --target "${target}" --source "${source}" --binary "${binary}"
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    ERROR_VARIABLE message RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "opsmith: ${message}")
  endif()
  # Not on stdout, where the user's modules may print as well.
  file(READ "${source}/answer.json" answer)
  string(JSON library GET "${answer}" library)
  # A changed definition or another torch needs a new plan: configure again when one of these files changes.
  string(JSON depends GET "${answer}" depends)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${depends})
  add_subdirectory("${source}" "${binary}")
  set(${target}_LIBRARY "${binary}/${library}" PARENT_SCOPE)
  if(destination)
    install(FILES "${binary}/${library}" DESTINATION "${destination}")
    get_filename_component(stem "${library}" NAME_WLE)
    install(FILES "${binary}/${stem}.json" DESTINATION "${destination}" OPTIONAL)
  endif()
endfunction()

# What a program links is a copy under a name of its own: `_ops.so` has no SONAME, and another package's is called so too.
function(_opsmith_link_from_cpp target library)
  set(copy "${CMAKE_CURRENT_BINARY_DIR}/opsmith/lib${target}.so")
  add_custom_command(
    OUTPUT "${copy}" COMMAND "${CMAKE_COMMAND}" -E copy "${library}" "${copy}" DEPENDS ${target} "${library}" VERBATIM)
  add_custom_target(_opsmith_copy_of_${target} DEPENDS "${copy}")
  add_library(_opsmith_${target} SHARED IMPORTED GLOBAL)
  set_target_properties(_opsmith_${target} PROPERTIES IMPORTED_LOCATION "${copy}" IMPORTED_NO_SONAME TRUE)
  add_library(opsmith::${target} INTERFACE IMPORTED GLOBAL)
  add_dependencies(opsmith::${target} _opsmith_copy_of_${target})
  target_link_libraries(opsmith::${target} INTERFACE "$<LINK_LIBRARY:opsmith_kept,_opsmith_${target}>")
endfunction()

function(opsmith_add_operators target path)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TORCH_TARGET;DESTINATION" "DEVICES;ARCHS")
  set(options "${path}")
  foreach(device IN LISTS arg_DEVICES)
    list(APPEND options --device "${device}")
  endforeach()
  if(arg_ARCHS)
    list(JOIN arg_ARCHS " " archs)
    list(APPEND options --arch "${archs}")
  endif()
  if(arg_TORCH_TARGET)
    list(APPEND options --torch-target "${arg_TORCH_TARGET}")
  endif()
  _opsmith_enter(plan "${target}" "${arg_DESTINATION}" ${options})
  set(${target}_LIBRARY "${${target}_LIBRARY}" PARENT_SCOPE)
  _opsmith_link_from_cpp("${target}" "${${target}_LIBRARY}")
endfunction()

function(opsmith_add_extension target)
  cmake_parse_arguments(
    PARSE_ARGV 1 arg "MODULE;LIBRARY" "DESTINATION" "SOURCES;ARCHS;CXX_FLAGS;GPU_FLAGS;LINK_FLAGS;INCLUDE_DIRS")
  set(options "")
  foreach(pair IN ITEMS SOURCES:source-file CXX_FLAGS:cxx-flag GPU_FLAGS:gpu-flag LINK_FLAGS:link-flag
                        INCLUDE_DIRS:include-dir)
    string(REPLACE ":" ";" pair "${pair}")
    list(GET pair 0 kind)
    list(GET pair 1 option)
    foreach(value IN LISTS arg_${kind})
      list(APPEND options "--${option}=${value}")
    endforeach()
  endforeach()
  if(arg_ARCHS)
    list(JOIN arg_ARCHS " " archs)
    list(APPEND options --arch "${archs}")
  endif()
  if(arg_MODULE)
    list(APPEND options --kind module)
  elseif(arg_LIBRARY)
    list(APPEND options --kind library)
  endif()
  _opsmith_enter(plan-sources "${target}" "${arg_DESTINATION}" ${options})
  set(${target}_LIBRARY "${${target}_LIBRARY}" PARENT_SCOPE)
endfunction()
