"""Reading COCO's format: what is understood, and what is refused by name."""

from __future__ import annotations

import json

import numpy as np
import pytest
from detection_kit.files import annotation, disc, square, write
from opsmith_detection.data.coco import Category, CocoDataset, DataError, read_image
from opsmith_detection.data.masks import as_rle
from PIL import Image, ImageOps
from pycocotools import mask as coco_mask

SIZES = [(40, 60), (60, 40)]


def test_objects_are_those_of_their_image(tmp_path):
    dataset = CocoDataset(write(tmp_path, SIZES, [disc(2, 20, 30, 8), square(1, 5, 6, 10), square(2, 1, 2, 3)]))
    assert len(dataset) == 2
    assert dataset.ids == [1, 2]
    assert dataset.sizes.tolist() == [[40, 60], [60, 40]]
    first, second = dataset.objects(0), dataset.objects(1)
    assert first.boxes.tolist() == [[5, 6, 15, 16]]
    assert first.labels.tolist() == [1]
    assert second.boxes.tolist() == [[12, 22, 28, 38], [1, 2, 4, 5]]
    assert second.labels.tolist() == [3, 1]
    assert first.segmentations == [[[5, 6, 15, 6, 15, 16, 5, 16]]]


def test_a_size_may_be_written_as_a_float(tmp_path):
    path = write(tmp_path, SIZES, [])
    path.write_text(path.read_text().replace(": 60", ": 60.0"))
    assert CocoDataset(path).sizes.tolist() == [[40, 60], [60, 40]]


def test_images_are_rgb_whatever_the_file_has(tmp_path):
    path = write(tmp_path, SIZES, [])
    Image.fromarray(np.full((60, 40), 7, np.uint8)).save(tmp_path / "2.png")
    pixels = CocoDataset(path).image(1)
    assert pixels.shape == (60, 40, 3)
    assert (pixels == 7).all()


@pytest.mark.parametrize("kind", ["jpg", "tiff"])  # Pillow turns TIFF itself
@pytest.mark.parametrize("orientation", range(10))
def test_images_are_upright_unless_their_size_is_that_of_the_stored_pixels(tmp_path, orientation, kind):
    path = write(tmp_path, [(40, 60)], [])
    entries = json.loads(path.read_text())
    entries["images"][0]["file_name"] = f"1.{kind}"
    stored, exif = Image.open(tmp_path / "1.png"), Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / f"1.{kind}", exif=exif)
    stored = Image.open(tmp_path / f"1.{kind}")
    upright = ImageOps.exif_transpose(stored)
    for image in (stored, upright):
        entries["images"][0].update(width=image.width, height=image.height)
        path.write_text(json.dumps(entries))
        expected = upright if image.size == upright.size else stored
        np.testing.assert_array_equal(CocoDataset(path).image(0), np.array(expected))
        for exif, only in (("ignore", stored), ("apply", upright)):
            dataset = CocoDataset(path, exif=exif)
            if image.size == only.size:
                np.testing.assert_array_equal(dataset.image(0), np.array(only))
            else:
                with pytest.raises(DataError, match=r"but .* says .* or data\.exif"):
                    dataset.image(0)
    assert (np.array(read_image(tmp_path / f"1.{kind}")) == np.array(upright)).all()


def test_a_damaged_orientation_does_not_cost_the_image(tmp_path):
    exif = Image.Exif()
    exif[0x0112], exif[0x011A] = 6, 72.0
    Image.new("RGB", (4, 8)).save(tmp_path / "1.jpg", exif=exif)
    whole = (tmp_path / "1.jpg").read_bytes()
    at = whole.index(b"\x01\x1a")
    # A rational number that is said to be text: Pillow 13 reads it, but cannot write it again.
    (tmp_path / "1.jpg").write_bytes(whole[: at + 3] + b"\x02" + whole[at + 4 :])
    assert read_image(tmp_path / "1.jpg").size == (8, 4)


@pytest.mark.parametrize(("kind", "mode"), [(np.uint16, "I;16"), (np.int32, "I"), (np.float32, "F")])
def test_images_of_more_than_8_bits_are_refused(tmp_path, kind, mode):
    Image.fromarray(np.ones((4, 4), kind)).save(tmp_path / "1.tiff")
    with pytest.raises(
        DataError, match=rf"1\.tiff has pixels of more than 8 bits \(Pillow's mode {mode}\): scale them"
    ):
        read_image(tmp_path / "1.tiff")


def test_an_image_that_pillow_takes_for_a_bomb_is_named(tmp_path, monkeypatch):
    Image.new("L", (9, 9)).save(tmp_path / "1.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 9)
    with pytest.raises(DataError, match=r"1\.png cannot be read as an image: .*81 pixels.* exceeds limit"):
        read_image(tmp_path / "1.png")


def test_labels_are_ids_or_counted(tmp_path):
    path = write(tmp_path, SIZES, [disc(1, 20, 20, 8)])
    by_id = CocoDataset(path)
    assert by_id.categories == {1: Category("square", 1), 3: Category("disc", 3)}
    assert by_id.classes == 3
    assert by_id.objects(0).labels.tolist() == [3]
    counted = CocoDataset(path, labels="contiguous")
    assert counted.categories == {1: Category("square", 1), 2: Category("disc", 3)}
    assert counted.classes == 2
    assert counted.objects(0).labels.tolist() == [2]


@pytest.mark.parametrize("labels", ["ids", "contiguous"])
def test_labels_are_those_of_the_training(tmp_path, labels):
    """Files of tests often lack a class, and their other categories must keep their labels."""
    learnt = {1: Category("car", 1), 2: Category("cat", 2), 3: Category("disc", 3)}
    path = write(tmp_path, SIZES, [disc(1, 20, 20, 8)], categories=[{"id": 3, "name": "disc"}])
    dataset = CocoDataset(path, labels=labels, categories=learnt)
    assert dataset.objects(0).labels.tolist() == [3] and dataset.categories == learnt
    with pytest.raises(DataError, match=r"'disc' with the id 3 is not one of the training: 'car' 1, 'dog' 3\. Give"):
        CocoDataset(path, labels=labels, categories={1: Category("car", 1), 2: Category("dog", 3)})


def test_only_ids_may_be_new_in_another_file(tmp_path):
    path = write(tmp_path, SIZES, [disc(1, 20, 20, 8)])
    learnt = {1: Category("square", 1)}
    assert CocoDataset(path, categories=learnt).objects(0).labels.tolist() == [3]
    with pytest.raises(DataError, match="'disc' with the id 3 is not one of the training: 'square' 1"):
        CocoDataset(path, labels="contiguous", categories=learnt)
    with pytest.raises(DataError, match="'disc' with the id 3 is not one"):  # its label is that of the squares
        CocoDataset(path, categories={3: Category("square", 1)})


def test_an_id_of_0_can_only_be_counted(tmp_path):
    path = write(tmp_path, SIZES, [annotation(1, 0, [1, 1, 5, 5])], categories=[{"id": 0, "name": "thing"}])
    with pytest.raises(DataError, match=r"'thing' has the id 0.*contiguous"):
        CocoDataset(path)
    assert CocoDataset(path, labels="contiguous").objects(0).labels.tolist() == [1]


def test_crowds_and_empty_boxes_are_not_learnt(tmp_path):
    crowd = {"size": [40, 60], "counts": [0, 2400]}
    found = [
        annotation(1, 1, [0, 0, 60, 40], iscrowd=1, segmentation=crowd),
        annotation(1, 1, [5, 5, 0, 9]),
        square(1, 1, 1, 4),
    ]
    assert CocoDataset(write(tmp_path, SIZES, found)).objects(0).boxes.tolist() == [[1, 1, 5, 5]]


WHOLE = {"size": [48, 64], "counts": [0, 48 * 64]}


@pytest.mark.parametrize("segmentation", [[[10, 10, 50, 10, 50, 40, 10, 40]], WHOLE], ids=["polygon", "RLE"])
@pytest.mark.parametrize("box", [[64.0, 1, 0.9, 8], [-1, 1, 1, 8], [60, 1, 1e-7, 8], [1, 48.5, 8, 0.4]], ids=str)
def test_boxes_without_an_area_in_their_image_are_not_learnt(tmp_path, box, segmentation):
    found = [annotation(1, 1, box, segmentation=segmentation), square(1, 1, 1, 4), square(2, 2, 2, 4)]
    dataset = CocoDataset(write(tmp_path, [(48, 64), (48, 64)], found))
    assert [dataset.objects(index).boxes.tolist() for index in (0, 1)] == [[[1, 1, 5, 5]], [[2, 2, 6, 6]]]
    assert [dataset.objects(index).segmentations for index in (0, 1)] == [
        [found[1]["segmentation"]],
        [found[2]["segmentation"]],
    ]


def test_an_empty_segmentation_is_none(tmp_path):
    dataset = CocoDataset(write(tmp_path, SIZES, [annotation(1, 1, BOX, segmentation=[])]))
    assert dataset.objects(0).segmentations == [None]
    with pytest.raises(DataError, match="1 objects have no `segmentation`"):
        dataset.check_masks(with_crowds=True)


def test_polygons_and_both_kinds_of_rle_are_one_mask():
    polygon = disc(1, 20, 20, 8)["segmentation"]
    compressed = as_rle(polygon, (40, 60))
    mask = coco_mask.decode(compressed)
    flat = mask.ravel(order="F")
    ends = np.flatnonzero(np.diff(flat)) + 1
    uncompressed = {"size": [40, 60], "counts": np.diff(ends, prepend=0, append=len(flat)).tolist()}
    assert as_rle(uncompressed, (40, 60))["counts"] == compressed["counts"]
    assert (
        as_rle({**compressed, "counts": compressed["counts"].decode()}, (40, 60))["counts"]
        == compressed["counts"].decode()
    )


BOX = [1, 1, 5, 5]
REFUSED = {
    "unknown image": (annotation(9, 1, BOX), "annotation 1 of image 9 .*not in `images`"),
    "unknown category": (annotation(1, 2, BOX), "category 2, which is not in `categories`"),
    "box outside": (annotation(1, 1, [50, 1, 12, 5]), r"\[50\.0, 1\.0, 12\.0, 5\.0\].*outside of the image's 60 x 40"),
    "negative width": (
        annotation(1, 1, [50, 1, -12, 5]),
        r"bbox\.2: .*greater than or equal to 0 .*-12",
    ),
    "three numbers": ({**annotation(1, 1, BOX), "bbox": [50, 1, 2]}, r"annotations\.0\.bbox\.3: Field required"),
    "infinite": (annotation(1, 1, [1, 1, 1, 1e999]), r"bbox\.3: .*finite number"),
    "polygon cut off": (annotation(1, 1, BOX, segmentation=[[1, 1, 2, 2, 3]]), "at least 6 items"),
    "polygon far away": (annotation(1, 1, BOX, segmentation=[[1, 1, 1e9, 2, 3, 3]]), "not near its image"),
    "polygon of text": (annotation(1, 1, BOX, segmentation=[[1, 1, "2", 2, 3, 3]]), "valid number.*found '2'"),
    "no points": (annotation(1, 1, BOX, segmentation=[[]]), "segmentation.polygons.0: .*at least 6 items"),
    "area of text": ({**annotation(1, 1, BOX), "area": "12"}, r"area: .*valid number.*found '12'"),
    "negative area": ({**annotation(1, 1, BOX), "area": -1}, r"area: .*greater than or equal to 0"),
    "size of an RLE": (
        annotation(1, 1, BOX, segmentation={"size": [60, 40], "counts": [2400]}),
        r"RLE of size \(60, 40\), but its image is \(40, 60\)",
    ),
    "runs of an RLE": (
        annotation(1, 1, BOX, segmentation={"size": [40, 60], "counts": [2399]}),
        "2399 pixels, but 2400",
    ),
    "compressed RLE": (annotation(1, 1, BOX, segmentation={"size": [40, 60], "counts": "0"}), "0 pixels, but 2400"),
    "text in an RLE": (
        annotation(1, 1, BOX, segmentation={"size": [40, 60], "counts": "oooo"}),
        "counts are not runs",
    ),
    "a point too few": (annotation(1, 1, BOX, segmentation=[[1, 1, 2, 2, 3, 3, 4]]), r"not \[x, y, x, y, \.\.\.\]"),
    "negative run": (
        annotation(1, 1, BOX, segmentation={"size": [40, 60], "counts": [-1, 2401]}),
        r"counts.*0: .*found -1",
    ),
    "no RLE": (annotation(1, 1, BOX, segmentation=7), r"annotations\.0\.segmentation\.RLE: .*\(found 7\)"),
    "no box": ({"image_id": 1, "category_id": 1}, r"annotations\.0\.bbox: Field required"),
}


@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
def test_annotations_that_do_not_fit_are_named(tmp_path, given, message):
    with pytest.raises(DataError, match=message):
        CocoDataset(write(tmp_path, SIZES, [given]))


def test_files_that_do_not_fit_are_named(tmp_path):
    path = write(tmp_path, SIZES, [square(1, 1, 1, 5)])
    text = path.read_text()
    (tmp_path / "2.png").unlink()
    with pytest.raises(DataError, match=r"1 of the 2 images .* the first is 2\.png: set data\.train_images or"):
        CocoDataset(path)
    with pytest.raises(DataError, match=r"2 of the 2 images .* are not found in .*nowhere"):
        CocoDataset(path, tmp_path / "nowhere")
    path.write_text(text[:-9])
    with pytest.raises(DataError, match="Invalid JSON: EOF"):
        CocoDataset(path)
    path.write_text("[]")
    with pytest.raises(DataError, match="should be an object"):
        CocoDataset(path)
    entries = json.loads(text)
    for number, said in ((-5, "greater than or equal to 0"), (2**63, "less than")):
        path.write_text(json.dumps({**entries, "images": [{**entries["images"][0], "id": number}]}))
        with pytest.raises(DataError, match=rf"images\.0\.id: .*{said}.*found {number}"):
            CocoDataset(path)
    for height, said in ((40.5, "valid integer"), ("40", "valid integer"), (None, "valid integer")):
        path.write_text(json.dumps({**entries, "images": [{**entries["images"][0], "height": height}]}))
        with pytest.raises(DataError, match=rf"images\.0\.height: .*{said}"):
            CocoDataset(path)
    path.write_text(json.dumps({**entries, "images": entries["images"] * 2}))
    with pytest.raises(DataError, match="two entries have the id 1"):
        CocoDataset(path)
    with pytest.raises(DataError, match=r"missing\.json cannot be read: No such file.*make detect"):
        CocoDataset(tmp_path / "missing.json")


def test_images_that_do_not_fit_are_named(tmp_path):
    path = write(tmp_path, SIZES, [])
    dataset = CocoDataset(path)
    whole = (tmp_path / "1.png").read_bytes()
    (tmp_path / "1.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"1\.png cannot be read as an image"):
        dataset.image(0)
    (tmp_path / "1.png").write_bytes((tmp_path / "2.png").read_bytes())
    with pytest.raises(DataError, match=r"1\.png has 40 x 60 pixels .* says 60 x 40"):
        dataset.image(0)


def test_objects_without_masks_are_counted_where_masks_are_wanted(tmp_path):
    dataset = CocoDataset(write(tmp_path, SIZES, [square(1, 1, 1, 5), annotation(1, 1, BOX)]))
    with pytest.raises(DataError, match=r"1 objects have no `segmentation`.*model\.mask_head=null"):
        dataset.check_masks(with_crowds=True)
